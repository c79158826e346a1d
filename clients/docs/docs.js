// The colour scheme of the service's page, the list of pages on wide screens, and the search, which needs no server.
(() => {
  const theme = (() => {
    try {
      return localStorage.getItem("tessera-theme");
    } catch {
      return null; // a page opened as a file may have no storage
    }
  })();
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  if (location.protocol !== "file:") document.getElementById("service").hidden = false;

  const pages = document.getElementById("pages");
  const wide = matchMedia("(min-width: 901px)");
  const fold = () => {
    pages.open = wide.matches;
  };
  wide.addEventListener("change", fold);
  fold();

  const field = document.getElementById("words");
  const results = document.getElementById("results");
  const article = document.querySelector("article");
  const near = document.querySelector(".near");
  let loaded;
  const load = () => {
    loaded ??= new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = "search-index.js";
      script.onload = () => done(window.tesseraDocs);
      script.onerror = failed;
      document.head.append(script);
    });
    return loaded;
  };

  const MOST = 40;
  /** Returns the sections that contain all words, those with the words in the heading first. */
  function matches(sections, words) {
    const found = [];
    for (const [address, page, heading, text] of sections) {
      const head = heading.toLowerCase();
      const all = `${page} ${heading} ${text}`.toLowerCase();
      if (!words.every((word) => all.includes(word))) continue;
      const inHeading = words.filter((word) => head.includes(word)).length;
      const exact = words.join(" ") === head || head.split(/[ .]/).at(-1) === words.join(" ");
      found.push({address, page, heading, text, rank: inHeading + (exact ? 10 : 0)});
    }
    return found.sort((a, b) => b.rank - a.rank).slice(0, MOST);
  }

  /** Returns the text around the first occurring word. */
  function excerpt(text, words) {
    const at = Math.max(0, Math.min(...words.map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0)) - 60);
    return Number.isFinite(at) && at > 0 ? `… ${text.slice(at, at + 200)}` : text.slice(0, 200);
  }

  function element(tag, properties, ...children) {
    const made = document.createElement(tag);
    Object.assign(made, properties);
    made.append(...children);
    return made;
  }

  async function search() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const searching = words.length > 0;
    if (searching) {
      const found = matches(await load(), words);
      const items = found.map(({address, page, heading, text}) =>
        element(
          "li",
          {},
          element("a", {href: address}, heading === page ? page : `${page}: ${heading}`),
          element("p", {className: "note"}, excerpt(text, words)),
        ),
      );
      const said = found.length === MOST ? `The first ${MOST} places` : `${found.length} places`;
      results.replaceChildren(
        element("h1", {}, "Search"),
        element("p", {className: "note", role: "status"}, said),
        element("ol", {className: "found"}, ...items),
      );
    }
    results.hidden = !searching;
    article.hidden = near.hidden = searching;
  }
  field.addEventListener("input", search);
  document.getElementById("find").addEventListener("submit", (event) => {
    event.preventDefault();
    results.querySelector("a")?.click();
  });
  results.addEventListener("click", (event) => {
    if (!event.target.closest("a")) return;
    field.value = "";
    search();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.metaKey || event.ctrlKey || event.altKey || event.target.closest("input")) return;
    event.preventDefault();
    field.focus();
  });
})();
