// A menu of the site's versions, where there are several. The folder above the site has versions.json:
// [{"name": "1.0", "path": "1.0/"}, {"name": "development", "path": "dev/"}], the newest first.
(async () => {
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href);
  const above = new URL("../", root);
  let versions = [];
  try {
    const answer = await fetch(new URL("versions.json", above));
    versions = answer.ok ? await answer.json() : [];
  } catch {
    return; // read from a disk, or a site of one version
  }
  const brand = document.querySelector(".sidebar-brand");
  if (!brand || versions.length < 2) return;
  const menu = document.createElement("select");
  menu.className = "versions";
  menu.setAttribute("aria-label", "Version");
  for (const { name, path } of versions) {
    const place = new URL(path, above);
    const here = root.href.startsWith(place.href);
    menu.add(new Option(name, place.href, here, here));
  }
  menu.onchange = () => {
    location.href = menu.value;
  };
  brand.after(menu);
})();
