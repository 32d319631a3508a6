package console

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"waypost"
	"waypost/api"
)

// subscriptionsPage is the data of the list of subscriptions.
type subscriptionsPage struct {
	Items              []api.Subscription
	Journeys, Webhooks names
}

func (v *visit) subscriptions() error {
	ctx := v.r.Context()
	var data subscriptionsPage
	err := together(func() (err error) {
		data.Journeys, data.Webhooks, err = v.gateway.bothNames(ctx)
		return err
	}, func() error {
		found, err := v.gateway.listSubscriptions(ctx, url.Values{"limit": {strconv.Itoa(waypost.MaxSubscriptions)}})
		data.Items = found.Items
		return err
	})
	if err != nil {
		return err
	}
	return v.render(page{Name: "subscriptions", Title: v.t("subscriptions.title"), Place: "subscriptions", Data: data})
}

// subscriptionPage is the data of the page of one subscription.
type subscriptionPage struct {
	api.Subscription
	Journey, Webhook string // their names
	Deliveries       []delivery
	More             bool // it has more of them
}

// tellsOfPage is how many messages the page of a subscription shows.
const tellsOfPage = 10

// subscription shows a subscription and its newest messages; with ?edit its form.
func (v *visit) subscription() error {
	if v.r.URL.Query().Has("edit") {
		return v.editSubscription()
	}
	ctx := v.r.Context()
	s, _, err := v.gateway.subscription(ctx, v.r.PathValue("id"))
	if err != nil {
		return err
	}
	var journeys, webhooks names
	var sent api.List[delivery]
	err = together(func() (err error) {
		journeys, webhooks, err = v.gateway.bothNames(ctx)
		return err
	}, func() (err error) {
		sent, err = v.gateway.listDeliveries(ctx, url.Values{"subscriptionId": {s.ID}, "limit": {strconv.Itoa(tellsOfPage)}})
		return err
	})
	if err != nil {
		return err
	}
	return v.render(page{
		Name: "subscription", Title: s.Name, Place: "subscriptions", Live: 5, Back: &link{Path: "/subscriptions", Text: v.t("subscriptions.title")},
		Data: subscriptionPage{s, journeys.Of(string(s.JourneyID)), webhooks.Of(s.WebhookID), sent.Items, sent.NextCursor != ""},
	})
}

// subscriptionForm is the data of the page on which a subscription is written.
type subscriptionForm struct {
	ID, ETag string // "" of a new one
	Fields   []field
	On       []choice
	OnFault  string
	General  string // what is wrong with none of the fields
	Webhooks bool   // there are any
}

// formOfSubscription are the values of a subscription as its form has them.
func formOfSubscription(s api.Subscription) url.Values {
	form := url.Values{"name": {s.Name}, "webhookId": {s.WebhookID}, "journeyId": {string(s.JourneyID)}}
	for _, h := range s.On {
		form.Add("on", string(h))
	}
	return form
}

// renderSubscriptionForm shows the form. s is the subscription that is changed, one without an
// id for a new one; err is why what was sent was refused.
func (v *visit) renderSubscriptionForm(s api.Subscription, etag string, form url.Values, refusal error) error {
	faults, general, err := v.formFaults(refusal)
	if err != nil {
		return err
	}
	journeys, webhooks, err := v.gateway.bothNames(v.r.Context())
	if err != nil {
		return err
	}
	p := subscriptionForm{ID: s.ID, ETag: etag, General: general, OnFault: faultOf(faults, "on"), Webhooks: len(webhooks) > 0}
	input := func(name string, f field) {
		f.Name, f.Label, f.Value, f.Fault = name, v.t("subscription.field."+name), form.Get(name), faultOf(faults, name)
		p.Fields = append(p.Fields, f)
	}
	input("name", field{Required: true, Hint: v.t("subscription.nameHint")})
	input("webhookId", field{Type: "select", Required: true, Options: webhooks.with(s.WebhookID).options(), Hint: v.t("subscription.webhookHint")})
	choices := append([]option{{"", v.t("subscription.allJourneys")}}, journeys.with(string(s.JourneyID)).options()...)
	input("journeyId", field{Type: "select", Options: choices, Hint: v.t("subscription.journeyHint")})
	for _, h := range waypost.Happenings {
		p.On = append(p.On, choice{string(h), v.t("subscription.on." + string(h)), slices.Contains(form["on"], string(h))})
	}
	title, back := v.t("subscription.new"), &link{Path: "/subscriptions", Text: v.t("subscriptions.title")}
	if s.ID != "" {
		title, back = v.t("subscription.edit"), &link{Path: "/subscriptions/" + s.ID, Text: s.Name}
	}
	return v.render(page{Name: "subscription_form", Title: title, Place: "subscriptions", Back: back, Status: v.formStatus(), Data: p})
}

func (v *visit) newSubscription() error {
	return v.renderSubscriptionForm(api.Subscription{}, "", url.Values{"webhookId": {v.r.URL.Query().Get("webhookId")}}, nil)
}

func (v *visit) editSubscription() error {
	s, etag, err := v.gateway.subscription(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	return v.renderSubscriptionForm(s, etag, formOfSubscription(s), nil)
}

// subscriptionBody is the subscription that the form describes.
func subscriptionBody(form url.Values) map[string]any {
	body := map[string]any{"name": strings.TrimSpace(form.Get("name")), "webhookId": form.Get("webhookId"), "on": append([]string{}, form["on"]...), "journeyId": nil}
	if id := form.Get("journeyId"); id != "" {
		body["journeyId"] = id
	}
	return body
}

func (v *visit) createSubscription() error {
	made, err := v.gateway.createSubscription(v.r.Context(), subscriptionBody(v.r.PostForm))
	if err != nil {
		return v.renderSubscriptionForm(api.Subscription{}, "", v.r.PostForm, err)
	}
	v.flash("ok", v.t("subscription.created"))
	return v.redirect("/subscriptions/"+made.ID, nil)
}

func (v *visit) saveSubscription() error {
	ctx, id, etag := v.r.Context(), v.r.PathValue("id"), v.r.PostForm.Get("etag")
	s, _, err := v.gateway.subscription(ctx, id)
	if err != nil {
		return err
	}
	if err := v.gateway.when(etag).patchSubscription(ctx, id, subscriptionBody(v.r.PostForm)); err != nil {
		return v.renderSubscriptionForm(s, etag, v.r.PostForm, err)
	}
	v.flash("ok", v.t("subscription.saved"))
	return v.redirect("/subscriptions/"+url.PathEscape(id), nil)
}

func (v *visit) deleteSubscription() error {
	if err := v.gateway.deleteSubscription(v.r.Context(), v.r.PathValue("id")); err != nil {
		return err
	}
	v.flash("ok", v.t("subscription.deleted"))
	return v.redirect("/subscriptions", nil)
}
