// Tables show the rows that have a word in them and touch the chosen time range; a heading sorts by its column.
const tables = (() => {
  const bodies = [...document.querySelectorAll("tbody[data-rows]")];
  const words = new Map();

  const isWithin = (row, range) => {
    if (!range) return true;
    if (row.dataset.within) return row.dataset.within !== "0";
    if (!row.dataset.from) return true;
    return Number(row.dataset.from) <= range[1] && Number(row.dataset.to || row.dataset.from) >= range[0];
  };

  function filter() {
    const range = axis.chosen();
    for (const body of bodies) {
      const word = words.get(body.dataset.rows) ?? "";
      let shown = 0;
      for (const row of body.rows) {
        row.hidden = !isWithin(row, range) || !(word === "" || row.textContent.toLowerCase().includes(word));
        shown += !row.hidden;
      }
      const count = document.querySelector(`[data-count="${body.dataset.rows}"]`);
      if (count) count.textContent = shown === body.rows.length ? "" : `${shown} of ${body.rows.length} shown`;
    }
  }

  for (const input of document.querySelectorAll("input[data-filter]")) {
    input.addEventListener("input", () => {
      words.set(input.dataset.filter, input.value.toLowerCase());
      filter();
    });
  }

  function key(cell) {
    const number = cell.dataset.number;
    return number === undefined ? cell.textContent.trim().toLowerCase() : number === "" ? null : Number(number);
  }

  function sort(heading) {
    const place = heading.cellIndex, body = heading.closest("table").tBodies[0];
    const ascending = heading.getAttribute("aria-sort") === "descending" || !(heading.ariaSort || heading.dataset.number);
    const way = ascending ? 1 : -1;
    const keyed = [...body.rows].map((row) => [key(row.cells[place]), row]);
    // What is not known comes last, whichever way.
    keyed.sort(([a], [b]) => (a === null) - (b === null) || way * (a < b ? -1 : a > b ? 1 : 0));
    body.append(...keyed.map(([, row]) => row));
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
  }

  for (const button of document.querySelectorAll("th button")) {
    button.addEventListener("click", () => sort(button.closest("th")));
  }

  function show(id) {
    const row = document.getElementById(id);
    if (!row) return;
    row.hidden = false;
    for (const other of document.querySelectorAll("tr.pointed")) other.classList.remove("pointed");
    row.classList.add("pointed");
    row.scrollIntoView({ block: "center" });
  }

  axis.listen({ choose: filter });
  return { show };
})();
