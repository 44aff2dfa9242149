// The page of the extension as it is packed.

/**
 * The page with its pictures from the documentation's site: an editor shows the page of an installed extension without
 * its folder, and of pictures only those with an address.
 * @param {string} page
 * @param {string} site the configuration of the site, which says where it is
 */
export function packagedPage(page, site) {
  const root = /^site_url: (https:\S+\/)$/m.exec(site)?.[1];
  if (root === undefined) throw new Error('mkdocs.yml does not say where the site is');
  return page.replace(/\]\(images\/([\w-]+\.png)\)/g, `](${root}assets/vscode/$1)`);
}
