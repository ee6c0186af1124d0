"""The built-in English-French corpus, made by a small grammar of both languages."""
