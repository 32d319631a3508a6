package console

// overview is the first page.
func (v *visit) overview() error { return v.redirect("/deliveries", nil) }
