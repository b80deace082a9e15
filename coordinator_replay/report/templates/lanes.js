// Groups as rows of a table, each with a lane of its states: SVG within rows that link, sort and filter, which Bokeh's
// canvases can't be. Lanes follow the axis of the figures.
const lanes = (() => {
  const table = document.querySelector("table.lanes");
  if (!table) return { room: () => null, shown: () => [] };
  const drawn = [...table.querySelectorAll("svg.lane")];
  const rows = [...table.tBodies[0].rows];
  const marks = [...document.querySelectorAll(".lane-mark")];
  const line = document.getElementById("lane-pointer"), box = document.getElementById("lane-brush");
  const UNITS = 10000;
  const unit = (moment) => ((moment - data.start) / (data.end - data.start)) * UNITS;

  const first = () => drawn.find((lane) => lane.getClientRects().length);
  const place = () => {
    const lane = first()?.getBoundingClientRect(), around = table.parentElement.getBoundingClientRect();
    return lane && { left: lane.left - around.left + table.parentElement.scrollLeft, width: lane.width };
  };
  const share = (moment) => (moment - axis.view()[0]) / (axis.view()[1] - axis.view()[0]);

  function room() {
    const lane = first()?.getBoundingClientRect(), figure = document.querySelector(".draw").getBoundingClientRect();
    return lane && { left: Math.round(lane.left - figure.left), right: Math.round(figure.right - lane.right) };
  }

  function span(element, from, to) {
    const at = place();
    element.hidden = !at || to < 0 || from > 1;
    if (element.hidden) return;
    const [left, right] = [Math.max(from, 0), Math.min(to, 1)];
    element.style.left = `${at.left + left * at.width}px`;
    element.style.width = `${Math.max((right - left) * at.width, 1)}px`;
    element.style.height = `${table.offsetHeight}px`;
  }

  const showChosen = () => {
    const range = axis.chosen();
    if (range) span(box, share(range[0]), share(range[1])); else box.hidden = true;
  };

  const showMarks = () => {
    for (const mark of marks) span(mark, share(Number(mark.dataset.at)), share(Number(mark.dataset.at)));
  };

  function look([start, end]) {
    const box = `${unit(start)} 0 ${unit(end) - unit(start)} 1`;
    for (const lane of drawn) lane.setAttribute("viewBox", box);
    showMarks();
    showChosen();
  }

  // How many rebalances of each group lie in the chosen range; groups with very many do not say it.
  function count(range) {
    for (const row of rows) {
      const { times, complete } = data.lanes[row.dataset.lane];
      const cell = row.querySelector("[data-rebalances]");
      cell.textContent = cell.dataset.rebalances;
      delete row.dataset.within;
      if (!range) continue;
      const [from, to] = range.map((moment) => moment - data.start);
      const within = times.filter((time) => time >= from && time <= to).length;
      row.dataset.within = within;
      if (complete) cell.textContent = within.toLocaleString("en");
    }
    showChosen();
  }

  const moment = (event) => {
    const lane = first().getBoundingClientRect();
    const part = Math.min(Math.max((event.clientX - lane.left) / lane.width, 0), 1);
    return axis.view()[0] + part * (axis.view()[1] - axis.view()[0]);
  };

  let from = null;
  for (const lane of drawn) {
    lane.addEventListener("pointerdown", (event) => { from = moment(event); lane.setPointerCapture(event.pointerId); });
    lane.addEventListener("pointermove", (event) => {
      axis.point(moment(event));
      if (from !== null) span(box, ...[from, moment(event)].sort((a, b) => a - b).map(share));
    });
    lane.addEventListener("pointerup", (event) => {
      const range = [from ?? moment(event), moment(event)].sort((a, b) => a - b);
      from = null;
      if (share(range[1]) - share(range[0]) > 0.005) axis.choose(range); else showChosen();
    });
    lane.addEventListener("pointercancel", () => { from = null; showChosen(); });
    lane.addEventListener("pointerleave", () => axis.point(null));
    lane.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      const at = moment(event), factor = event.deltaY < 0 ? 0.8 : 1.25, [start, end] = axis.view();
      axis.look(at - (at - start) * factor, at + (end - at) * factor);
    }, { passive: false });
  }

  axis.listen({
    look,
    choose: count,
    point: (at) => { if (at === null) line.hidden = true; else span(line, share(at), share(at)); },
  });
  look(axis.view());
  window.addEventListener("resize", showMarks);

  // What a picture of the page shows: the name of each group that is shown, and its lane.
  const shown = () => rows.filter((row) => !row.hidden).map((row) => {
    const lane = row.querySelector("svg.lane");
    const paths = [...lane.querySelectorAll("path")].map((path) => [path.getAttribute("fill"), path.getAttribute("d")]);
    return { name: row.querySelector(".name").textContent.trim(), paths };
  });
  return { room, shown };
})();
