'use strict';
(() => {
  const figures = JSON.parse(document.getElementById('figures').textContent);
  const touch = matchMedia('(pointer: coarse)').matches;

  function spread(trace) {
    const { size, cells } = trace.meta;
    const empty = (value) => Array.from({ length: size }, () => Array(size).fill(value));
    [trace.z, trace.customdata] = [empty(null), empty('')];
    for (const [one, two, value, text] of cells) {
      for (const [row, column] of [[one, two], [two, one]]) {
        trace.z[row][column] = value;
        trace.customdata[row][column] = text;
      }
    }
    delete trace.meta;
  }

  // Plotly takes most of the load time, so it is loaded with the first figure.
  function runPlotly() {
    const library = document.createElement('script');
    library.text = document.getElementById('plotly').textContent;
    document.body.append(library);
  }

  // Figures are drawn when they become visible, so that large reports open quickly.
  function draw(place) {
    if (place.dataset.drawn) return;
    if (!window.Plotly) runPlotly();
    place.dataset.drawn = 'yes';
    const { data, layout } = figures[Number(place.dataset.figure)];
    data.filter((trace) => trace.meta?.cells).forEach(spread);
    layout.dragmode = touch ? false : 'zoom';
    Plotly.newPlot(place, data, layout, { responsive: true, displayModeBar: false });
  }
  const visible = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      visible.unobserve(entry.target);
      draw(entry.target);
    }
  }, { rootMargin: '300px' });
  const places = [...document.querySelectorAll('.plot')];
  places.forEach((place) => visible.observe(place));
  addEventListener('beforeprint', () => places.filter((place) => place.offsetParent).forEach(draw));

  function reveal() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target instanceof HTMLDetailsElement) {
      target.open = true;
      target.scrollIntoView();
    }
  }
  addEventListener('hashchange', reveal);
  reveal();

  // Adds the remaining rows of a long table: a browser takes seconds to lay out ten thousand.
  function complete(table) {
    const rest = document.getElementById(`${table.id}-rest`);
    if (!rest) return;
    const heads = [...table.tHead.rows[0].cells];
    const rows = JSON.parse(rest.textContent).map(([css, texts, values]) => {
      const row = document.createElement('tr');
      row.className = css;
      texts.forEach((text, column) => {
        const cell = row.insertCell();
        cell.className = heads[column].className;
        const place = heads[column].classList.contains('c-verdict') ? cell.appendChild(document.createElement('span')) : cell;
        if (place !== cell) place.className = `badge ${text.toLowerCase()}`;
        place.textContent = text;
        if (column in values) cell.dataset.value = values[column];
      });
      return row;
    });
    rest.parentNode.querySelector('button.all').parentNode.remove();
    rest.remove();
    table.tBodies[0].append(...rows);
  }
  for (const button of document.querySelectorAll('button.all')) {
    button.addEventListener('click', () => complete(document.getElementById(button.dataset.table)));
  }

  function compare(one, two, numeric) {
    if (!numeric) return one.localeCompare(two, 'en', { numeric: true });
    return Number(one) - Number(two);
  }
  function sort(table, column) {
    complete(table);
    const head = table.tHead.rows[0].cells[column];
    const numeric = head.classList.contains('number');
    const down = head.getAttribute('aria-sort') === 'ascending';
    for (const cell of table.tHead.rows[0].cells) cell.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const value = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const [one, two] = [value(a), value(b)];
      // Missing values come last in both directions.
      if (one === '' || two === '') return (one === '') - (two === '');
      return compare(one, two, numeric) * (down ? -1 : 1);
    });
    table.tBodies[0].append(...rows);
  }
  for (const table of document.querySelectorAll('table.sortable')) {
    [...table.tHead.rows[0].cells].forEach((cell, column) => {
      cell.querySelector('button').addEventListener('click', () => sort(table, column));
    });
  }

  const filter = document.getElementById('filter');
  if (filter) {
    filter.addEventListener('input', () => {
      const wanted = filter.value.trim().toLowerCase();
      const table = document.getElementById('table');
      complete(table);
      for (const row of table.tBodies[0].rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
      }
    });
  }
})();
