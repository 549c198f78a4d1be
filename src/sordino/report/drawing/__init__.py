"""The pictures of the page as inline SVG, with colours that follow the page's own."""
