// What is wrong with the page, as sentences by rule. `width` is that of the window, `phone` whether letters and targets must be large enough for one.
(width, phone) => {
  const found = { document: [], markup: [], overflow: [], contrast: [], size: [], clipped: [], overlap: [], squeezed: [], keyboard: [], headings: [], tables: [], references: [], links: [] };
  for (const details of document.querySelectorAll("details")) details.open = true;
  const all = [...document.querySelectorAll("*")];
  const short = (text) => JSON.stringify(text.trim().replace(/\s+/g, " ").slice(0, 60));
  const named = (element) => `<${element.localName}${element.id ? "#" + element.id : ""}> ${short(element.textContent)}`;

  // Colors: whatever notation the style sheet uses, a canvas turns it into numbers.
  const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const colors = new Map(); // few, asked for many times
  const rgba = (color) => {
    if (!colors.has(color)) {
      pen.clearRect(0, 0, 1, 1);
      pen.fillStyle = color;
      pen.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
      colors.set(color, [r, g, b, a / 255]);
    }
    return [...colors.get(color)];
  };
  const over = (top, bottom) => [0, 1, 2].map((k) => top[k] * top[3] + bottom[k] * (1 - top[3])).concat(1);
  const luminance = (color) => {
    const [r, g, b] = color.slice(0, 3).map((x) => (x / 255 <= 0.04045 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const probe = document.createElement("div");
  probe.style.backgroundColor = "Canvas";
  document.documentElement.append(probe);
  const canvas = rgba(getComputedStyle(probe).backgroundColor);
  probe.remove();
  const lineage = (element) => (element ? [element, ...lineage(element.parentElement)] : []);
  const background = (element) =>
    lineage(element).reverse().reduce((below, one) => over(rgba(getComputedStyle(one).backgroundColor), below), canvas);
  const page = background(document.body);
  found.page = luminance(page);

  const judge = (element, style, text) => {
    const ink = rgba(element instanceof SVGElement ? style.fill : style.color);
    ink[3] *= lineage(element).reduce((product, one) => product * Number(getComputedStyle(one).opacity), 1);
    if (element instanceof SVGElement) ink[3] *= Number(style.fillOpacity);
    let below = background(element);
    if (style.content !== "normal") below = over(rgba(style.backgroundColor), below); // of ::before and ::after
    if (lineage(element).some((one) => getComputedStyle(one).backgroundImage !== "none")) {
      found.contrast.push(`${short(text)} stands on a background image, where its contrast is not known`);
    }
    const matrix = element instanceof SVGElement && element.getScreenCTM ? element.getScreenCTM() : null;
    const size = parseFloat(style.fontSize) * (matrix ? Math.hypot(matrix.a, matrix.b) : 1);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const reached = ratio(over(ink, below), below);
    if (reached < (large ? 3 : 4.5)) {
      found.contrast.push(`${short(text)} has contrast ${reached.toFixed(2)}: ${ink} on ${below} (${size} px)`);
    }
    // Labels of a picture may be smaller: a finger can zoom, and the words of the page say what they show.
    if (phone && size < (matrix ? 9 : 12)) found.size.push(`${short(text)} has letters of ${size.toFixed(1)} px`);
  };

  // Text that can be seen.
  const scrolls = (element) => lineage(element).some((one) => ["auto", "scroll"].includes(getComputedStyle(one).overflowX));
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const labels = [];
  let characters = 0;
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.data.trim() || !element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter((box) => box.width > 1 && box.height > 1);
    if (!boxes.length || lineage(element).some((one) => one.clientWidth === 1 && one.clientHeight === 1)) continue; // for screen readers
    characters += node.data.trim().length;
    judge(element, getComputedStyle(element), node.data);
    const picture = element.closest("svg")?.getBoundingClientRect();
    if (picture && boxes.some((box) => box.left < picture.left - 1 || box.right > picture.right + 1 || box.top < picture.top - 1 || box.bottom > picture.bottom + 1)) {
      found.clipped.push(`${short(node.data)} reaches beyond its picture`);
    }
    if (picture) labels.push([element.closest("svg"), node.data, boxes[0]]);
    const words = node.data.trim().split(/[\s\u2010-]+/), lines = new Set(boxes.map((box) => Math.round(box.top))).size;
    if (!picture && lines > words.length && Math.max(...words.map((word) => word.length)) <= 15) {
      found.squeezed.push(`${short(node.data)} has ${words.length} words on ${lines} lines`);
    }
    const right = Math.max(...boxes.map((box) => box.right)) + scrollX, left = Math.min(...boxes.map((box) => box.left)) + scrollX;
    if ((right > width + 0.5 || left < -0.5) && !scrolls(element)) {
      found.overflow.push(`${short(node.data)} reaches from ${left.toFixed(0)} to ${right.toFixed(0)} of ${width} px`);
    }
  }
  labels.forEach(([svg, text, box], k) => {
    for (const [other, its, there] of labels.slice(k + 1)) {
      const [across, down] = [Math.min(box.right, there.right) - Math.max(box.left, there.left), Math.min(box.bottom, there.bottom) - Math.max(box.top, there.top)];
      if (svg === other && across > 2 && down > 4) found.overlap.push(`${short(text)} lies over ${short(its)} by ${across.toFixed(0)} × ${down.toFixed(0)} px`);
    }
  });
  if (!characters) found.document.push("there is no text to see");
  for (const element of all) {
    for (const pseudo of ["::before", "::after"]) {
      const style = getComputedStyle(element, pseudo);
      if (/^"./.test(style.content) && style.content.trim() !== '""' && element.checkVisibility()) judge(element, style, style.content);
    }
  }

  for (const element of all) {
    const scrolling = element !== document.documentElement && element.scrollWidth > element.clientWidth + 1;
    if (scrolling && ["auto", "scroll"].includes(getComputedStyle(element).overflowX) && element.tabIndex < 0) {
      found.keyboard.push(`${named(element)} scrolls, and no key reaches it`);
    }
  }

  // The page as a whole. On a phone a page that is too wide is zoomed out, and then the window reports the wider width.
  const reach = document.documentElement.scrollWidth;
  if (reach > width) found.overflow.push(`the page is ${reach} px wide, the window ${width} px`);
  if (innerWidth > width) found.overflow.push(`the page is zoomed out to ${innerWidth} px, the window has ${width} px`);
  if (!document.documentElement.lang) found.document.push("html has no lang");
  if (!document.title.trim()) found.document.push("there is no title");
  if (document.compatMode !== "CSS1Compat") found.document.push("there is no doctype");
  if (document.characterSet !== "UTF-8") found.document.push(`the character set is ${document.characterSet}`);
  if (document.querySelectorAll("main").length !== 1) found.document.push("there is not exactly one main element");

  // Nothing that runs, embeds or leads away by itself.
  for (const element of all) {
    if (["script", "iframe", "object", "embed", "base", "form", "foreignObject", "frame", "portal"].includes(element.localName)) {
      found.markup.push(`there is a ${element.localName}`);
    }
    if (element.matches('link:not([rel="icon"][href^="data:"]), meta[http-equiv="refresh" i]')) found.markup.push(`there is ${element.outerHTML}`);
    for (const { name, value } of element.attributes) {
      if (name.startsWith("on")) found.markup.push(`${named(element)} has ${name}`);
      if (/^\s*(javascript|vbscript):/i.test(value)) found.markup.push(`${named(element)} has ${name}=${value}`);
    }
  }

  const levels = [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")].map((one) => [Number(one.localName[1]), one]);
  if (levels.filter(([level]) => level === 1).length !== 1) found.headings.push("there is not exactly one h1");
  if (levels.length && levels[0][0] !== 1) found.headings.push(`the first heading is ${named(levels[0][1])}`);
  levels.forEach(([level, one], k) => {
    if (k && level > levels[k - 1][0] + 1) found.headings.push(`${named(one)} follows a heading of level ${levels[k - 1][0]}`);
    if (!one.textContent.trim()) found.headings.push(`${named(one)} is empty`);
  });
  for (const table of document.querySelectorAll("table")) {
    if (!table.querySelector("th")) found.tables.push(`${named(table)} has no th`);
  }
  for (const head of document.querySelectorAll("th")) {
    if (!["col", "row", "colgroup", "rowgroup"].includes(head.scope)) found.tables.push(`${named(head)} has no scope`);
  }

  // Ids: of several figures in one page, each needs its own.
  const ids = all.map((one) => one.id).filter(Boolean), known = new Set(ids);
  for (const id of known) if (ids.filter((one) => one === id).length > 1) found.references.push(`the id ${short(id)} is used more than once`);
  for (const element of all) {
    for (const { name, value } of element.attributes) {
      const goals = /^(aria-(labelledby|describedby|controls)|for)$/.test(name) ? value.split(/\s+/)
        : /^(xlink:)?href$/.test(name) && value.startsWith("#") ? [decodeURIComponent(value.slice(1))]
        : /^(aria-|alt$|title$|content$)/.test(name) ? [] // text
        : [...value.matchAll(/url\(["']?#([^"')]+)["']?\)/g)].map((match) => match[1]);
      for (const goal of goals) if (goal && !known.has(goal)) found.references.push(`${named(element)} has ${name}=${value}, which is nowhere`);
    }
  }
  for (const one of document.querySelectorAll("a, button, summary, input, select")) {
    if (!one.checkVisibility()) continue;
    if (!one.textContent.trim() && !one.ariaLabel) found.links.push(`${named(one)} has no name`);
    if (one.target === "_blank" && !/noopener|noreferrer/.test(one.rel)) found.links.push(`${named(one)} opens a window that can reach back`);
    const alone = one.localName !== "a" || one.parentElement.textContent.trim() === one.textContent.trim();
    const { width: wide, height: high } = one.getBoundingClientRect(); // a link within a sentence is as high as its line
    if (phone && alone && Math.min(wide, high) < 24) found.links.push(`${named(one)} is ${wide.toFixed(0)} × ${high.toFixed(0)} px, too small for a finger`);
  }
  return found;
}
