package console

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
)

// suppressionsPage is the data of the list of suppressions.
type suppressionsPage struct {
	Filters filterBar
	Items   []suppression
	More    string
	New     []field // the form of a new one
	General string  // what is wrong with none of its fields
}

// addressKinds are the kinds of addresses that a suppression can have.
var addressKinds = []string{"mobilePhone", "email", "externalId"}

func (v *visit) suppressions() error { return v.renderSuppressions(http.StatusOK, nil, "") }

// renderSuppressions shows the suppressions, and the form of a new one, with what is wrong
// with it.
func (v *visit) renderSuppressions(status int, faults map[string]string, general string) error {
	filters := newFilterBar(v.r, filter{Name: "channel", Label: v.t("suppressions.channel")}, filter{Name: "leadsId", Label: v.t("leads.field.leadsId"), Type: "number"})
	found, err := v.gateway.listSuppressions(v.r.Context(), filters.query(v.r))
	if err != nil {
		return err
	}
	p := suppressionsPage{Filters: filters, Items: found.Items, More: filters.more(found.NextCursor), General: general}
	form := v.r.PostForm
	fault := ""
	for _, kind := range addressKinds {
		fault = cmp.Or(fault, faults[kind])
	}
	p.New = []field{
		{Name: "channel", Label: v.t("suppressions.channel"), Value: form.Get("channel"), Required: true, Hint: v.t("suppressions.channelHint"), Complete: "off", Fault: faults["channel"]},
		{Name: "kind", Type: "select", Label: v.t("suppressions.kind"), Value: form.Get("kind"), Options: options(v, "leads.field.", addressKinds), Required: true},
		{Name: "address", Label: v.t("suppressions.address"), Value: form.Get("address"), Required: true, Complete: "off", Fault: fault},
	}
	return v.render(page{Name: "suppressions", Title: v.t("suppressions.title"), Place: "suppressions", Status: status, Data: p})
}

func (v *visit) addSuppression() error {
	form := v.r.PostForm
	body := map[string]any{"channel": strings.TrimSpace(form.Get("channel"))}
	if kind := form.Get("kind"); slices.Contains(addressKinds, kind) {
		body[kind] = form.Get("address")
	}
	_, err := v.gateway.createSuppression(v.r.Context(), body)
	if err == nil {
		v.flash("ok", v.t("suppressions.added"))
		return v.redirect("/suppressions", nil)
	}
	faults, general, err := faultsOf(err)
	if err != nil {
		return err
	}
	if fault := faults[""]; fault != "" {
		general = fault
	}
	return v.renderSuppressions(http.StatusBadRequest, faults, general)
}

func (v *visit) deleteSuppression() error {
	if err := v.gateway.deleteSuppression(v.r.Context(), v.r.PathValue("id")); err != nil {
		return err
	}
	v.flash("ok", v.t("suppressions.removed"))
	return v.redirect("/suppressions", nil)
}

// distinct sorts texts and drops repeated ones.
func distinct(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}
