"""What values do by themselves: their elements, methods and operators, and what is known of the unknown."""
