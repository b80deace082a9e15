// A picture of what the page shows now, for a post-mortem: its figures and lanes with their captions, as PNG.
const image = (() => {
  const SCALE = window.devicePixelRatio || 1, EDGE = 16, LINE = 18;
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(name).trim();

  // A sheet grows downwards: every part draws itself at a place and says how high it is.
  function drawn() {
    const figures_shown = figures.shown(), strips = lanes.shown();
    // Beside a figure above lanes there is a legend, which goes above it here.
    const beside = Math.max((lanes.room()?.right ?? EDGE) - EDGE, 0);
    const width = Math.max(...figures_shown.map(({ canvas }) => canvas.width / SCALE), 400) - beside + 2 * EDGE;
    const parts = [...heading(width), ...figures_shown.flatMap((shown) => figure(shown, width)), ...strip_rows(strips, width)];
    const measure = document.createElement("canvas").getContext("2d");
    const height = parts.reduce((sum, part) => sum + part(measure, -1e6), 2 * EDGE);
    const sheet = Object.assign(document.createElement("canvas"), { width: width * SCALE, height: height * SCALE });
    const pen = sheet.getContext("2d");
    pen.scale(SCALE, SCALE);
    pen.fillStyle = colour("--paper");
    pen.fillRect(0, 0, width, height);
    parts.reduce((y, part) => y + part(pen, y), EDGE);
    return new Promise((done) => sheet.toBlob(done, "image/png"));
  }

  // Words flow into as many lines as they need; a word may have a square of colour before it.
  function words(entries, width, { font = "12px sans-serif", ink = "--ink" } = {}) {
    return (pen, top) => {
      pen.font = font;
      let x = EDGE, y = top + LINE - 4;
      for (const [text, fill] of entries) {
        const wide = pen.measureText(text).width + (fill ? 16 : 0);
        if (x > EDGE && x + wide > width - EDGE) { x = EDGE; y += LINE; }
        if (fill) { pen.fillStyle = fill; pen.fillRect(x, y - 9, 10, 10); }
        pen.fillStyle = colour(ink);
        pen.fillText(text, x + (fill ? 14 : 0), y);
        x += wide + (fill ? 10 : pen.measureText(" ").width);
      }
      return y - top + 8;
    };
  }

  const said = (text) => text.trim().split(/\s+/).map((word) => [word]);

  function heading(width) {
    const [start, end] = axis.view();
    const marks = [...document.querySelectorAll(".marks span")].map((mark) => mark.textContent.trim());
    return [
      words(said(document.querySelector("h1").textContent), width, { font: "bold 18px sans-serif" }),
      words(said(`${axis.time(start)} to ${axis.time(end)} (${data.zone.name})`), width, { ink: "--soft" }),
      ...marks.map((mark) => words(said(mark), width)),
    ];
  }

  const keys = (caption) => [...caption.querySelectorAll(".key")].map((key) =>
    [key.textContent.trim(), key.querySelector("rect")?.getAttribute("fill")]);

  function captions(caption, width) {
    const title = words(said(caption.querySelector("b").textContent), width, { font: "bold 13px sans-serif" });
    const legend = keys(caption);
    return legend.length ? [title, words(legend, width, { font: "11px sans-serif", ink: "--soft" })] : [title];
  }

  function figure({ canvas, caption }, width) {
    const height = canvas.height / SCALE;
    return [...captions(caption, width), (pen, top) => {
      pen.drawImage(canvas, EDGE, top, canvas.width / SCALE, height);
      return height + 6;
    }];
  }

  function strip_rows(strips, width) {
    if (!strips.length) return [];
    const { left } = lanes.room(), [start, end] = axis.view();
    const long = width - 3 * EDGE - left, units = 10000 / (data.end - data.start);
    const row = ({ name, paths }) => (pen, top) => {
      pen.font = "11px sans-serif";
      pen.fillStyle = colour("--ink");
      pen.fillText(name, EDGE, top + 12, left - 8);
      pen.save();
      pen.beginPath();
      pen.rect(EDGE + left, top, long, 14);
      pen.clip();
      pen.translate(EDGE + left, top);
      pen.scale(long / ((end - start) * units), 14);
      pen.translate(-(start - data.start) * units, 0);
      for (const [fill, path] of paths) {
        if (fill) { pen.fillStyle = fill; pen.fill(new Path2D(path)); continue; }
        pen.strokeStyle = colour("--ink");
        pen.lineWidth = ((end - start) * units) / long;
        pen.stroke(new Path2D(path));
      }
      pen.restore();
      return LINE;
    };
    return [...captions(document.getElementById("strips"), width), ...strips.slice(0, 300).map(row)];
  }

  const save = (blob) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = `${document.title.replace(/[^\w.-]+/g, "-")}.png`;
    link.click();
    URL.revokeObjectURL(link.href);
  };

  // Some browsers let a file copy no image: it is saved instead.
  async function copy(button) {
    const asked = drawn();
    let told = "Copied";
    try {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": asked })]);
    } catch {
      save(await asked);
      told = "Saved as a file";
    }
    const label = button.textContent;
    button.textContent = told;
    setTimeout(() => { button.textContent = label; }, 2000);
  }

  return { copy };
})();
