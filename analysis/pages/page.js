"use strict";
(() => {
  // --- tables: a click, Enter or Space on a head sorts by that column, by value where a cell has one

  const DASH = "—";
  const PLAIN_NUMBER = /^[+-]?[\d,]+(\.\d+)?\s*[%x]?$/;
  const words = new Intl.Collator("en", { numeric: true });

  function key(row, column) {
    const cell = row.cells[column];
    if (!cell) return null;
    if (cell.dataset.sort !== undefined) return cell.dataset.sort === "" ? null : Number(cell.dataset.sort);
    const text = cell.textContent.trim();
    if (text === "" || text === DASH) return null;
    return PLAIN_NUMBER.test(text) ? parseFloat(text.replace(/,/g, "")) : text;
  }

  function compare(first, second) {
    if (typeof first === "number" && typeof second === "number") return first - second;
    if (typeof first === "number") return -1;
    return typeof second === "number" ? 1 : words.compare(first, second);
  }

  function sort(table, column, direction) {
    const rows = [...table.tBodies[0].rows].map((row) => [key(row, column), row]);
    rows.sort(([first], [second]) => {
      if (first === null || second === null) return (first === null) - (second === null); // unknown ones last, always
      return direction * compare(first, second);
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }

  function makeSortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (head.textContent.trim() === "") return;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const before = head.getAttribute("aria-sort");
        const isNumber = head.classList.contains("number");
        const first = isNumber ? "descending" : "ascending";
        const now = before === null ? first : before === "ascending" ? "descending" : "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", now);
        sort(table, column, now === "ascending" ? 1 : -1);
      });
    });
  }

  document.querySelectorAll("table").forEach((table) => {
    if (table.tHead && table.tBodies[0] && table.tBodies[0].rows.length > 1) makeSortable(table);
  });

  // --- timelines

  const holder = document.getElementById("timelines");
  if (!holder) return;
  const charts = JSON.parse(document.getElementById("charts").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const coarse = window.matchMedia("(pointer: coarse)").matches;
  const COARSE_HINT = "The buttons above a timeline, + and − zoom into a time; the other timelines follow.";
  const PAPER_WIDTH = 660;
  const ROW_HEIGHT = 15;
  const MARKERS = { ticks: { size: 6, symbol: "line-ns-open", line: { width: 1.5 } }, dots: { size: 3.5 } };
  const MARGINS = { l: 62, r: 12, t: 30, b: 50 };
  const LIGHT = { ink: "#1c1c1e", soft: "#5d5d63", line: "#d9d9de", card: "#ffffff" };
  const DARK = { ink: "#ececf0", soft: "#a8a8b0", line: "#3a3a40", card: "#17171a" };

  // The library reads a little markup of its own in every text: names of hosts and files must stay what they are.
  function safe(text) {
    return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function shorter(text, most) {
    return text.length > most ? text.slice(0, most - 1) + "…" : text;
  }

  // A colour as it is on white, lighter where it would drown in the dark.
  function tone(colour, isDark) {
    if (!isDark || !/^#[0-9a-f]{6}$/i.test(colour)) return colour;
    const parts = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
    const light = (0.299 * parts[0] + 0.587 * parts[1] + 0.114 * parts[2]) / 255;
    if (light > 0.45) return colour;
    const share = 0.45 - light + 0.15;
    return "#" + parts.map((part) => Math.round(part + (255 - part) * share).toString(16).padStart(2, "0")).join("");
  }

  function axis(panel, letter) {
    return panel === 0 ? letter : letter + (panel + 1);
  }

  function lineTrace(chart, line, theme) {
    const notes = line.notes.length ? { customdata: line.notes.map(safe) } : {};
    const told = line.notes.length ? "<br>%{customdata}" : "";
    return {
      type: "scatter",
      mode: line.form === "steps" ? "lines" : "markers",
      name: safe(shorter(line.name, 40)),
      x: line.x,
      y: line.y,
      yaxis: axis(line.panel, "y"),
      legendgroup: safe(line.group),
      showlegend: chart.lines.find((other) => other.group === line.group) === line,
      visible: line.hidden ? "legendonly" : true,
      line: { color: tone(line.colour, theme === DARK), width: line.width, shape: "hv" },
      marker: { color: tone(line.colour, theme === DARK), ...MARKERS[line.form] },
      hovertemplate: `%{x} ${chart.unit}: %{y:,.4~g}${told}<extra>%{fullData.name}</extra>`,
      ...notes,
    };
  }

  function barTrace(chart, bars, theme) {
    const colour = tone(bars.colour, theme === DARK);
    const named = bars.rows.map((row, place) => [
      safe(chart.rows[row]),
      bars.notes.length ? "<br>" + safe(bars.notes[place]) : "",
      bars.begins[place],
      bars.lengths[place],
    ]);
    return {
      type: "bar",
      orientation: "h",
      name: safe(shorter(bars.name, 40)),
      y: bars.rows,
      base: bars.begins,
      x: bars.lengths,
      width: bars.thin ? 0.35 : 0.75,
      marker: { color: colour, line: { color: colour, width: 1 } },
      customdata: named,
      hovertemplate:
        `<b>%{customdata[0]}</b>: %{fullData.name}<br>%{customdata[3]:,.4~g} ${chart.unit}` +
        ` from %{customdata[2]} ${chart.unit}%{customdata[1]}<extra></extra>`,
    };
  }

  function levelTrace(level, theme) {
    return {
      type: "scatter",
      mode: "lines",
      name: safe(level.name),
      x: ENDS,
      y: [level.value, level.value],
      yaxis: axis(level.panel, "y"),
      line: { color: level.colour ? tone(level.colour, theme === DARK) : theme.ink, width: 1.2, dash: level.dash },
      hovertemplate: "%{fullData.name}<extra></extra>",
    };
  }

  // The time that all timelines of the page cover, by what is not hidden.
  function extent() {
    let [least, most] = [0, -Infinity];
    const see = (value) => {
      if (value < least) least = value;
      if (value > most) most = value;
    };
    charts.forEach((chart) => {
      chart.lines.filter((line) => !line.hidden).forEach((line) => line.x.forEach(see));
      chart.bars.forEach((bars) => bars.begins.forEach((begin, place) => see(begin + bars.lengths[place])));
    });
    return most > least ? [least, most] : [least, least + 1];
  }

  // Given away as copies only: the library changes ranges in place.
  const ENDS = extent();
  const WHOLE = [ENDS[0], ENDS[1] + 0.01 * (ENDS[1] - ENDS[0])];

  function legendHeight(chart, width) {
    const shown = [...chart.lines.map((line) => line.group), ...chart.bars.map((bars) => bars.name)];
    const names = [...new Set([...shown, ...chart.levels.map((level) => level.name)])];
    const longest = Math.max(...names.map((name) => Math.min(name.length, 40)), 1);
    const columns = Math.max(Math.floor((width - 74) / (7 * longest + 50)), 1);
    return 19 * Math.ceil(names.length / columns) + 6;
  }

  function bodyHeight(chart) {
    return chart.rows.length ? Math.min(Math.max(ROW_HEIGHT * chart.rows.length, 45), 660) : 190 * chart.panels.length;
  }

  function layout(chart, theme, width) {
    const style = { gridcolor: theme.line, linecolor: theme.line, zerolinecolor: theme.line, tickcolor: theme.line };
    const [body, legend] = [bodyHeight(chart), legendHeight(chart, width)];
    const made = {
      width,
      height: MARGINS.t + body + MARGINS.b + legend,
      margin: { ...MARGINS, b: MARGINS.b + legend, l: chart.rows.length ? 78 : MARGINS.l },
      paper_bgcolor: theme.card,
      plot_bgcolor: theme.card,
      font: { color: theme.ink, size: 12, family: "system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" },
      hoverlabel: { bgcolor: theme.card, bordercolor: theme.soft, font: { color: theme.ink }, align: "left" },
      hovermode: "closest",
      dragmode: coarse ? false : "zoom",
      barmode: "overlay",
      modebar: { bgcolor: "rgba(0,0,0,0)", color: theme.soft, activecolor: theme.ink },
      legend: { orientation: "h", y: -MARGINS.b / body, yanchor: "top", x: 0 },
      showlegend: true,
      xaxis: {
        ...style,
        title: { text: safe(chart.time), standoff: 6 },
        range: [...WHOLE],
        anchor: axis(chart.panels.length - 1, "y"),
      },
      shapes: chart.moments.map((at) => ({
        type: "line", xref: "x", yref: "paper", x0: at, x1: at, y0: 0, y1: 1,
        line: { color: theme.soft, width: 1, dash: "dot" }, layer: "below",
      })),
    };
    const share = 1 / chart.panels.length;
    chart.panels.forEach((title, panel) => {
      const top = 1 - panel * share;
      made["yaxis" + (panel === 0 ? "" : panel + 1)] = chart.rows.length
        ? rowAxis(chart, style)
        : {
            ...style, title: { text: safe(title), standoff: 4 }, rangemode: "tozero", fixedrange: true,
            domain: [top - share + (panel < chart.panels.length - 1 ? 0.05 : 0), top],
          };
    });
    return made;
  }

  function rowAxis(chart, style) {
    const step = Math.ceil(chart.rows.length / 46);
    const shown = chart.rows.map((_, row) => row).filter((row) => row % step === 0);
    return {
      ...style, range: [chart.rows.length - 0.4, -0.6], fixedrange: true, showgrid: false, zeroline: false,
      tickvals: shown, ticktext: shown.map((row) => safe(shorter(chart.rows[row], 12))), tickfont: { size: 10.5 },
    };
  }

  function traces(chart, theme) {
    return [
      ...chart.bars.map((bars) => barTrace(chart, bars, theme)),
      ...chart.lines.map((line) => lineTrace(chart, line, theme)),
      ...chart.levels.map((level) => levelTrace(level, theme)),
    ];
  }

  const SETTINGS = {
    displaylogo: false,
    displayModeBar: true,
    modeBarButtons: [["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
    plotlyServerURL: "",
    doubleClick: "reset",
  };

  const drawings = [...holder.querySelectorAll("figure[data-chart]")].map((figure) => {
    return { figure, plot: figure.querySelector(".plot"), chart: charts[Number(figure.dataset.chart)] };
  });

  function draw(drawing, theme, width) {
    const { plot, chart } = drawing;
    const made = layout(chart, theme, width || plot.clientWidth || 320);
    if (drawing.range) made.xaxis.range = [...drawing.range];
    return Plotly.react(plot, traces(chart, theme), made, SETTINGS);
  }

  let isPrinting = false;
  function drawAll() {
    drawings.forEach((drawing) => draw(drawing, isPrinting ? LIGHT : screenTheme(), isPrinting && PAPER_WIDTH));
  }

  function print(isNow) {
    isPrinting = isNow;
    drawAll();
  }

  const screenTheme = () => (dark.matches ? DARK : LIGHT);

  // All timelines of a page show the same time.
  let following = false;
  function follow(source, event) {
    if (following) return;
    const range = event["xaxis.range"] || [event["xaxis.range[0]"], event["xaxis.range[1]"]];
    const isReset = event["xaxis.autorange"] === true;
    if (!isReset && (range[0] === undefined || range[1] === undefined)) return;
    zoom(isReset ? null : range.map(Number), source);
  }

  function zoom(range, source) {
    following = true;
    const moved = drawings.map((drawing) => {
      drawing.range = range;
      if (drawing === source && range) return null;
      return Plotly.relayout(drawing.plot, { "xaxis.range": [...(range || WHOLE)] });
    });
    Promise.all(moved).finally(() => {
      following = false;
    });
  }

  function connect(drawing) {
    drawing.plot.on("plotly_relayout", (event) => follow(drawing, event));
    drawing.plot.on("plotly_doubleclick", () => zoom(null, drawing));
    drawing.figure.querySelectorAll("[data-view]").forEach((button) => {
      const view = button.dataset.view === "all" ? null : drawing.chart.views[Number(button.dataset.view)];
      button.addEventListener("click", () => zoom(view && view.slice(1), null));
    });
  }

  function resized() {
    if (isPrinting) return;
    drawings.forEach((drawing) => {
      const width = drawing.plot.clientWidth;
      if (width && Math.abs(width - drawing.plot.layout.width) > 1) draw(drawing, screenTheme());
    });
  }

  async function library() {
    const packed = atob(document.getElementById("plotly").textContent);
    const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
    const inflated = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const script = document.createElement("script");
    script.textContent = await new Response(inflated).text();
    document.head.append(script);
    document.getElementById("plotly").remove();
    if (!window.Plotly) throw new Error("the drawing library did not start");
  }

  async function begin() {
    await library();
    holder.hidden = false;
    if (coarse) holder.querySelector(".hint").textContent = COARSE_HINT;
    drawAll();
    drawings.forEach(connect);
    dark.addEventListener("change", drawAll);
    window.addEventListener("beforeprint", () => print(true));
    window.addEventListener("afterprint", () => print(false));
    new ResizeObserver(resized).observe(holder);
    document.documentElement.dataset.drawn = "yes";
  }

  begin().catch(() => {
    holder.hidden = true;
    document.getElementById("undrawn").hidden = false;
    document.documentElement.dataset.drawn = "no";
  });
})();
