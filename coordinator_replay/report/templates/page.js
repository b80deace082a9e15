"use strict";
// Puts the figures on the page, paints them for the theme, and wires the buttons. No name from a dump is read here.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const light_colours = { ink: "#1d2329", soft: "#5b6570", line: "#aab2bb" };
  const dark_colours = { ink: "#e4e8ec", soft: "#9aa5b1", line: "#4a545f" };

  const painted = {
    Axis: (c) => ({ major_label_text_color: c.soft, axis_label_text_color: c.soft, axis_line_color: c.line,
      major_tick_line_color: c.line, minor_tick_line_color: null }),
    Title: (c) => ({ text_color: c.ink }),
    Grid: (c) => ({ grid_line_color: c.line }),
    Legend: (c) => ({ label_text_color: c.soft, background_fill_alpha: 0, border_line_alpha: 0 }),
  };

  function paint(colours) {
    for (const doc of Bokeh.documents) {
      for (const model of doc._all_models.values()) {
        const kind = Object.keys(painted).find((name) => model.type.endsWith(name));
        if (kind) model.setv(painted[kind](colours));
      }
    }
  }

  const repaint = () => paint(dark.matches ? dark_colours : light_colours);

  function named(name) {
    for (const doc of Bokeh.documents) {
      const found = doc.get_model_by_name(name);
      if (found) return found;
    }
    return null;
  }

  function press(button, attribute) {
    for (const other of button.parentElement.querySelectorAll(`button[${attribute}]`)) {
      other.setAttribute("aria-pressed", String(other === button));
    }
  }

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
      named("offset-lines").glyph.ys = field;
      named("offset-ends").glyph.y = field;
      press(button, "data-field");
    });
  }

  for (const input of document.querySelectorAll("input[data-rows]")) {
    const rows = document.getElementById(input.dataset.rows).rows;
    input.addEventListener("input", () => {
      const word = input.value.toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(word);
    });
  }

  async function draw() {
    for (const item of JSON.parse(document.getElementById("figures").textContent)) {
      await Bokeh.embed.embed_item(item, "drawn");
    }
    repaint();
    dark.addEventListener("change", repaint);
    window.addEventListener("beforeprint", () => paint(light_colours));
    window.addEventListener("afterprint", repaint);
    document.body.dataset.drawn = "yes";
  }
  draw();
})();
