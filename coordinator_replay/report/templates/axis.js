// The time axis that everything on the page shares: what is in view, which time range is chosen, where the pointer is.
const data = JSON.parse(document.getElementById("data").textContent);

const axis = (() => {
  const edge = Math.max((data.end - data.start) * 0.01, 500);
  const whole = [data.start - edge, data.end + edge];
  const listeners = [];
  let view = whole, chosen = null;

  const notify = (what, value) => { for (const listener of listeners) listener[what]?.(value); };

  // How far the page's zone is ahead of UTC at a time.
  const offset = (moment) => (data.zone.offsets.findLast(([since]) => since <= moment) ?? data.zone.offsets[0])[1];
  const time = (moment) => new Date(moment + offset(moment)).toISOString().replace("T", " ").replace("Z", "");

  function length(milliseconds) {
    if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`;
    for (const [unit, size] of [["d", 86400e3], ["h", 3600e3], ["min", 60e3]]) {
      if (milliseconds >= 2 * size) return `${(milliseconds / size).toFixed(1)} ${unit}`;
    }
    return `${(milliseconds / 1000).toFixed(1)} s`;
  }

  function look(start, end) {
    const span = Math.min(Math.max(end - start, 2), 1.5 * (whole[1] - whole[0]));
    const first = Math.min(Math.max(start, whole[0] - span / 2), whole[1] - span / 2);
    if (first === view[0] && first + span === view[1]) return;
    view = [first, first + span];
    notify("look", view);
    remember();
  }

  // The range in view is in the page's address and in its links to other pages, always in UTC.
  const iso = (moment) => new Date(Math.round(moment)).toISOString();
  function remember() {
    const hash = view[0] === whole[0] && view[1] === whole[1] ? "" : `#from=${iso(view[0])}&to=${iso(view[1])}`;
    for (const link of document.querySelectorAll('a[href*=".html"]')) link.hash = hash;
    try { history.replaceState(null, "", hash || location.pathname + location.search); } catch { /* a page in a frame */ }
  }

  function recall() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const [start, end] = [asked.get("from"), asked.get("to")].map((text) => Date.parse(text ?? ""));
    if (end > start) look(start, end);
  }
  window.addEventListener("hashchange", recall);

  function choose(range) {
    chosen = range;
    document.getElementById("chosen").textContent =
      range ? `${time(range[0])} to ${time(range[1]).slice(11)} (${length(range[1] - range[0])})` : "";
    for (const button of document.querySelectorAll("button[data-chosen]")) button.hidden = !range;
    notify("choose", range);
  }

  function point(moment) {
    document.getElementById("pointed").textContent = moment === null ? "" : `${time(moment)} ${data.zone.name}`;
    notify("point", moment);
  }

  const actions = {
    zoom: () => { if (chosen) { look(...chosen); choose(null); } },
    clear: () => choose(null),
    whole: () => look(...whole),
    earlier: () => look(view[0] - (view[1] - view[0]) / 2, view[1] - (view[1] - view[0]) / 2),
    later: () => look(view[0] + (view[1] - view[0]) / 2, view[1] + (view[1] - view[0]) / 2),
    closer: () => look(view[0] + (view[1] - view[0]) / 4, view[1] - (view[1] - view[0]) / 4),
    wider: () => look(view[0] - (view[1] - view[0]) / 2, view[1] + (view[1] - view[0]) / 2),
  };
  for (const button of document.querySelectorAll("button[data-axis]")) {
    button.addEventListener("click", actions[button.dataset.axis]);
  }

  return { whole, look, choose, point, offset, recall, time, view: () => view, chosen: () => chosen, listen: (one) => listeners.push(one) };
})();
