// Fills the figures with the page's data, paints them for the theme, and ties them to the axis.
const figures = (() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const light_colours = { ink: "#1d2329", soft: "#5b6570", line: "#aab2bb", brush: "#1c63b7" };
  const dark_colours = { ink: "#e4e8ec", soft: "#9aa5b1", line: "#4a545f", brush: "#7db4f5" };
  const narrow = window.matchMedia("(max-width: 700px)");
  const paper = window.matchMedia("print");
  let doc = null;

  const painted = {
    Axis: (c) => ({ major_label_text_color: c.soft, axis_label_text_color: c.soft, axis_line_color: c.line,
      major_tick_line_color: c.line, minor_tick_line_color: null }),
    Grid: (c) => ({ grid_line_color: c.line }),
    VSpan: () => ({}),
    Span: (c) => ({ line_color: c.soft }),
    BoxAnnotation: (c) => ({ fill_color: c.brush, line_color: c.brush }),
  };

  function paint(colours) {
    for (const model of doc._all_models.values()) {
      const kind = Object.keys(painted).find((name) => model.type.endsWith(name));
      if (kind) model.setv(painted[kind](colours));
    }
  }

  const repaint = () => paint(dark.matches && !paper.matches ? dark_colours : light_colours);
  const named = (name) => doc.get_model_by_name(name);

  // Bokeh's axes are in UTC: figures have times of the zone's clock at the page's start, so that ticks are round there.
  const ahead = axis.offset(data.start);
  const placed = (moment) => moment + ahead;
  const moment_at = (place) => place - ahead;

  // What is written is right on both sides of a change of the clocks.
  function write_in_zone() {
    const written = (place) => moment_at(place) + axis.offset(moment_at(place));
    const { DEFAULT_FORMATTERS } = Bokeh.require("core/util/templating");
    const { datetime } = DEFAULT_FORMATTERS;
    DEFAULT_FORMATTERS.datetime = (value, ...more) => datetime(Number.isFinite(value) ? written(value) : value, ...more);
    for (const figure of doc.roots()) {
      const { formatter } = figure.below[0], format = formatter.doFormat;
      formatter.doFormat = (ticks, ...more) => format.call(formatter, ticks.map(written), ...more);
    }
  }

  function values(column) {
    if (column.texts) return column.at.map((place) => column.texts[place]);
    if (column.since_start) {
      const moment = (after) => placed(data.start + after);
      return column.since_start.map((one) => (Array.isArray(one) ? one.map(moment) : moment(one)));
    }
    return column.values;
  }

  // Offsets beyond 2^53 come as text: a place in a figure may be rounded, a difference is taken before.
  const place_of = (offset) => (offset === null ? NaN : Number(offset));
  const apart = (offset, first) => {
    if (offset === null || first === null) return NaN;
    const is_text = typeof offset === "string" || typeof first === "string";
    return is_text ? Number(BigInt(offset) - BigInt(first)) : offset - first;
  };

  // An offset holds until the next one: a step. Null ends a line; progress counts from the line's first offset.
  function steps(columns) {
    const made = { ...columns, times: [], offset: [], progress: [] };
    columns.times.forEach((times, line) => {
      const offsets = columns.offset[line], xs = [], ys = [];
      times.forEach((time, place) => {
        const value = place ? offsets[place - 1] : null;
        if (value !== null) { xs.push(time); ys.push(value); }
        xs.push(time);
        ys.push(offsets[place] ?? null);
      });
      made.times.push(xs);
      made.offset.push(ys.map(place_of));
      made.progress.push(ys.map((offset) => apart(offset, offsets[0])));
    });
    return made;
  }

  function fill() {
    for (const [name, packed] of Object.entries(data.sources)) {
      const columns = Object.fromEntries(Object.entries(packed).map(([column, one]) => [column, values(one)]));
      if (name === "offset-ends") {
        for (const column of ["offset", "progress"]) columns[column] = columns[column].map(place_of);
      }
      named(`${name}-data`).data = name === "offset-lines" ? steps(columns) : columns;
    }
    for (const [name, top] of Object.entries(data.tops ?? {})) named(name).y_range.setv({ start: 0, end: top });
    for (const name of data.hidden ?? []) {
      const { Range1d } = Bokeh.require("models/ranges/range1d");
      named(name).setv({ visible: false, y_range: new Range1d({ start: 0, end: 1 }) });
    }
    const [start, end] = axis.view().map(placed);
    named("times").setv({ start, end });
    fit();
  }

  // Rows get their height and names, names as much room as the window has.
  function fit() {
    const letters = narrow.matches ? 12 : 28;
    const room = lanes.room() ?? (narrow.matches ? { left: 92, right: 8 } : { left: 190, right: 16 });
    for (const figure of doc.roots()) {
      figure.setv({ min_border_left: room.left, min_border_right: room.right });
      figure.below[0].ticker.desired_num_ticks = narrow.matches ? 3 : 8;
      figure.left[0].major_label_text_font_size = narrow.matches ? "9px" : "11px";
      const rows = data.rows[figure.name];
      if (!rows) continue;
      const { labels, each, most } = rows;
      figure.height = Math.min(Math.max(labels.length * each + 36, 64), most);
      figure.y_range.setv({ start: Math.max(labels.length, 1) - 0.4, end: -0.6 });
      figure.left[0].ticker.ticks = labels.map((_, row) => row);
      figure.left[0].major_label_overrides = new Map(labels.map((label, row) => [row, cut(label, letters)]));
    }
  }

  const cut = (text, most) =>
    text.length <= most ? text : `${text.slice(0, Math.ceil(most / 3))}…${text.slice(1 + Math.ceil(most / 3) - most)}`;

  function tie() {
    const times = named("times"), brush = named("brush"), pointer = named("pointer");
    const moved = () => axis.look(moment_at(times.start), moment_at(times.end));
    times.properties.start.change.connect(moved);
    times.properties.end.change.connect(moved);
    axis.listen({
      look: ([start, end]) => times.setv({ start: placed(start), end: placed(end) }),
      choose: (range) =>
        brush.setv(range ? { left: placed(range[0]), right: placed(range[1]), visible: true } : { visible: false }),
      point: (moment) => pointer.setv(moment === null ? { visible: false } : { location: placed(moment), visible: true }),
    });
    for (const figure of doc.roots()) {
      figure.on_event("selectiongeometry", ({ geometry, final }) => {
        if (final && geometry.x1 > geometry.x0) axis.choose([geometry.x0, geometry.x1].map(moment_at));
      });
      figure.on_event("mousemove", ({ x }) => axis.point(moment_at(x)));
      figure.on_event("mouseleave", () => axis.point(null));
      // Swiping up and down scrolls the page, as everywhere.
      const view = Bokeh.index.find_one_by_id(figure.id);
      view.canvas_view.events_el.style.touchAction = "pan-y";
    }
    const marks = named("rebalance-marks");
    if (marks) {
      marks.data_source.selected.properties.indices.change.connect(() => {
        const [place] = marks.data_source.selected.indices;
        if (place === undefined) return;
        tables.show(`rebalance-${marks.data_source.data.id[place]}`);
        marks.data_source.selected.indices = [];
      });
    }
  }

  function press(button, attribute) {
    for (const other of button.parentElement.querySelectorAll(`button[${attribute}]`)) {
      other.setAttribute("aria-pressed", String(other === button));
    }
  }

  function wire() {
    for (const button of document.querySelectorAll("button[data-show]")) {
      button.addEventListener("click", () => {
        named(button.dataset.hide).visible = false;
        named(button.dataset.show).visible = true;
        press(button, "data-show");
      });
    }
    for (const button of document.querySelectorAll("button[data-field]")) {
      button.addEventListener("click", () => {
        const field = { field: button.dataset.field };
        named("offset-lines-marks").glyph.ys = field;
        named("offset-ends-marks").glyph.y = field;
        press(button, "data-field");
      });
    }
    for (const link of document.querySelectorAll("a.back")) {
      link.addEventListener("click", (event) => {
        event.preventDefault();
        document.getElementById("draw-rebalances").scrollIntoView();
      });
    }
    for (const button of document.querySelectorAll("button[data-copy]")) {
      button.addEventListener("click", () => image.copy(button));
    }
    narrow.addEventListener("change", fit);
    if (lanes.room()) window.addEventListener("resize", fit);
    dark.addEventListener("change", repaint);
    paper.addEventListener("change", print);
  }

  // Paper is narrower than most windows, and shows of a canvas what was on it before: figures are drawn once more, as
  // vectors.
  function print() {
    repaint();
    for (const svg of document.querySelectorAll(".draw > svg")) svg.remove();
    fit();
    for (const figure of doc.roots()) {
      const view = Bokeh.index.find_one_by_id(figure.id);
      view.compute_layout();
      if (paper.matches && view.is_displayed) view.el.parentElement.append(view.export("svg").ctx.get_svg());
    }
  }

  async function draw() {
    const { json, places } = window.coordinatorReplayFigures;
    doc = Bokeh.require("document").Document.from_json(json);
    write_in_zone();
    fill();
    await Bokeh.embed.add_document_standalone(doc, document.body, places.map((id) => document.getElementById(id)));
    repaint();
    tie();
    wire();
    axis.recall();
  }

  // What a picture of the page shows: each visible figure with its caption.
  function shown() {
    return doc.roots().filter((figure) => figure.visible).map((figure) => {
      const view = Bokeh.index.find_one_by_id(figure.id);
      const caption = document.getElementById(`draw-${figure.name.replace("by-member", "by-partition")}`);
      return { canvas: view.export("png").canvas, caption: caption.parentElement.querySelector("figcaption") };
    });
  }

  return { draw, shown };
})();
