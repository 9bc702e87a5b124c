// Before the page is drawn: light or dark, as the reader chose here, else as their system says.
{
  let chosen = null;
  try { chosen = localStorage.getItem("theme"); } catch { /* nothing is kept in this browser */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
