// What is wrong with the page at hand: every function gives a list of sentences.
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const shown = (element) => {
    const text = (element.id ? "#" + element.id : element.textContent || "").trim();
    return `<${element.tagName.toLowerCase()}> ${text.replace(/\s+/g, " ").slice(0, 50)}`;
  };
  const visible = (element) =>
    element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  // Colours, as pixels: any way of writing them is understood.
  const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const pixel = (colour) => {
    if (!known.has(colour)) {
      context.clearRect(0, 0, 1, 1);
      context.fillStyle = colour;
      context.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = ([r, g, b, a], under) =>
    [r, g, b].map((part, i) => part * a + under[i] * (1 - a)).concat(1);
  const background = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      layers.push(pixel(getComputedStyle(each).backgroundColor));
    }
    // The browser's own page is white, or black where the page says it can be dark.
    const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark")
      && matchMedia("(prefers-color-scheme: dark)").matches;
    const paper = dark ? [18, 18, 18, 1] : [255, 255, 255, 1];
    return layers.reverse().reduce((under, layer) => over(layer, under), paper);
  };
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  // A text of a figure lies on the shapes that were drawn before it at its place.
  const under = (element) => {
    const figure = element.closest("svg");
    const page = background(figure ? figure.parentElement : element);
    if (!figure) return page;
    const box = element.getBoundingClientRect();
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
    return all("rect, circle, path, polygon", figure)
      .filter((shape) => !shape.closest("defs, clipPath, mask, pattern"))
      .filter((shape) => shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING)
      .filter((shape) => {
        const point = new DOMPoint(x, y).matrixTransform(shape.getScreenCTM().inverse());
        return getComputedStyle(shape).fill !== "none" && shape.isPointInFill(point);
      })
      .reduce((below, shape) => {
        const style = getComputedStyle(shape);
        const [r, g, b, a] = pixel(style.fill.startsWith("url") ? "transparent" : style.fill);
        return over([r, g, b, a * style.fillOpacity * style.opacity], below);
      }, page);
  };
  // A stroke that is painted first is a halo, and the letters lie on that.
  const halo = (style, below) => {
    const first = style.paintOrder.startsWith("stroke") && parseFloat(style.strokeWidth) >= 2;
    return first && style.stroke !== "none" ? over(pixel(style.stroke), below) : below;
  };
  const texts = () => {
    const found = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const holder = walker.currentNode.parentElement;
      const unseen = holder.closest("script, style, title, desc, defs, noscript");
      if (walker.currentNode.data.trim() && !unseen && visible(holder)) found.add(holder);
    }
    return [...found];
  };

  const contrasts = () =>
    texts().flatMap((element) => {
      const style = getComputedStyle(element);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
      const ink = element.closest("svg") ? style.fill : style.color;
      const below = element.closest("svg") ? halo(style, under(element)) : under(element);
      const reached = contrast(over(pixel(ink), below), below);
      const needed = large ? 3 : 4.5;
      return reached >= needed ? [] : [`contrast ${reached.toFixed(2)} of ${shown(element)}`];
    });

  const headings = () => {
    const levels = all("h1, h2, h3, h4, h5, h6").map((each) => [Number(each.tagName[1]), each]);
    const jumps = levels.flatMap(([level, each], i) => {
      const before = i ? levels[i - 1][0] : 0;
      return level > before + 1 ? [`heading jumps from h${before} to ${shown(each)}`] : [];
    });
    const first = levels.filter(([level]) => level === 1).length;
    return first === 1 ? jumps : [`${first} headings h1`, ...jumps];
  };

  const tables = () =>
    all("table").flatMap((table) => {
      const heads = all("th", table);
      const scopes = ["col", "row", "colgroup", "rowgroup"];
      const bad = heads.filter((head) => !scopes.includes(head.getAttribute("scope")));
      const none = heads.length ? [] : [`no head in ${shown(table)}`];
      return none.concat(bad.map((head) => `no scope on ${shown(head)}`));
    });

  const page = () => {
    const ids = all("[id]").map((each) => each.id);
    const twice = ids.filter((id, i) => ids.indexOf(id) !== i).map((id) => `id ${id} twice`);
    const lang = document.documentElement.lang ? [] : ["no language"];
    const title = document.title.trim() ? [] : ["no title"];
    const main = all("main").length === 1 ? [] : ["not one main part"];
    return [...lang, ...title, ...main, ...twice];
  };

  const figures = () =>
    all("svg").flatMap((svg) => {
      const box = svg.getBoundingClientRect();
      const width = document.documentElement.clientWidth;
      if (!visible(svg) || box.width < 1 || box.height < 1) return [`unseen ${shown(svg)}`];
      const inside = box.left >= -0.5 && box.right <= width + 0.5;
      return inside ? [] : [`beyond the edge: ${shown(svg)} ends at ${box.right} of ${width}`];
    });

  // Words of a figure that are cut off by its frame, or too small to read.
  const letters = () =>
    all("svg text").filter(visible).flatMap((text) => {
      const frame = text.closest("svg").getBoundingClientRect();
      const box = text.getBoundingClientRect();
      const cut = box.left < frame.left - 1 || box.right > frame.right + 1
        || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
      const { a, b } = text.getScreenCTM(); // turned texts keep their size
      const size = parseFloat(getComputedStyle(text).fontSize) * Math.hypot(a, b);
      const small = size < 8 ? [`${size.toFixed(1)} px: ${shown(text)}`] : [];
      return cut ? [`cut off: ${shown(text)}`, ...small] : small;
    });

  const scrolls = (element) => {
    for (let each = element; each && each !== document.body; each = each.parentElement) {
      if (["auto", "scroll"].includes(getComputedStyle(each).overflowX)) return true;
    }
    return false;
  };
  const overflow = () =>
    all("body *").filter((each) => !each.closest("svg") && visible(each)).flatMap((each) => {
      const { right, left, width } = each.getBoundingClientRect();
      const beyond = width > 1 && right > document.documentElement.clientWidth + 0.5;
      // Parked to the left until it has the focus: links for keyboards.
      return beyond && left >= 0 && !scrolls(each) ? [`beyond the edge: ${shown(each)}`] : [];
    });

  // Words that a column too narrow for them breaks in two.
  const broken = () => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const faults = [];
    while (walker.nextNode()) {
      const node = walker.currentNode;
      const holder = node.parentElement;
      if (holder.closest("script, style, svg, pre") || !visible(holder)) continue;
      for (const word of node.data.matchAll(/[A-Za-z]{2,}/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (lines.size > 1) faults.push(`broken word ${word[0]} in ${shown(holder)}`);
      }
    }
    return faults;
  };

  // Where the tabulator stops although nothing can be done there.
  const stops = () =>
    all("[tabindex]").flatMap((each) => (each.tabIndex >= 0 ? [`stop at ${shown(each)}`] : []));

  // Figures that a printer may cut in two.
  const sheets = () =>
    all("svg").flatMap((svg) => {
      for (let each = svg; each; each = each.parentElement) {
        if (getComputedStyle(each).breakInside.startsWith("avoid")) return [];
      }
      return [`may be cut by the end of a sheet: ${shown(svg)}`];
    });

  const links = () => all("a[href^='#']").map((each) => each.getAttribute("href").slice(1));
  const paper = () => luminance(background(document.body));

  return {
    contrasts, headings, tables, page, figures, letters, overflow, sheets, links, paper, broken,
    stops,
  };
})()
