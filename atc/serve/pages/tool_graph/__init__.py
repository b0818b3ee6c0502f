"""The tool graph as a picture: a page to look around in, and a drawing for papers."""
