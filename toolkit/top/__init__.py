"""The full-screen terminal: `crawlctl top`. The one room with Textual."""
