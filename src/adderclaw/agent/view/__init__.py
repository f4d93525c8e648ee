"""What happened, as items: made of rows and events here and nowhere else; terminals, exports and reports draw them."""
