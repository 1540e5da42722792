from typing import Any

from itemadapter import ItemAdapter
from scrapy.exceptions import DropItem


class OncePerSkuPipeline:
    """Let every SKU through once: the price list repeats rows, and a product may be reached by two addresses."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def process_item(self, item: Any) -> Any:
        sku = ItemAdapter(item)["sku"]
        if sku in self.seen:
            raise DropItem(f"{sku} came before", log_level="DEBUG")
        self.seen.add(sku)
        return item
