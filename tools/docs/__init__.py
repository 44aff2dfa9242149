"""What makes the documentation: hooks of the site's build, pictures and tables that are measured, not drawn."""
