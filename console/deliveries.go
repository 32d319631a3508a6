package console

import "waypost"

// deliveriesPage is the data of the list of deliveries.
type deliveriesPage struct {
	Filters            filterBar
	Items              []delivery
	Journeys, Webhooks names
	More               string
}

var deliveryStatuses = []waypost.DeliveryStatus{
	waypost.DeliveryPending, waypost.DeliveryRetrying, waypost.DeliveryDeferred, waypost.DeliverySucceeded, waypost.DeliveryFailed, waypost.DeliveryCanceled,
}

func (v *visit) deliveries() error {
	ctx := v.r.Context()
	journeys, err := v.gateway.journeyNames(ctx)
	if err != nil {
		return err
	}
	webhooks, err := v.gateway.webhookNames(ctx)
	if err != nil {
		return err
	}
	var statuses, classes []option
	for _, s := range deliveryStatuses {
		statuses = append(statuses, option{string(s), v.t("status." + string(s))})
	}
	for _, class := range waypost.ErrorClasses {
		classes = append(classes, option{class, v.t("errorClass." + class)})
	}
	filters := newFilterBar(v.r,
		filter{Name: "status", Label: v.t("deliveries.status"), Type: "select", Options: statuses},
		filter{Name: "journeyId", Label: v.t("deliveries.journey"), Type: "select", Options: journeys.options()},
		filter{Name: "webhookId", Label: v.t("deliveries.webhook"), Type: "select", Options: webhooks.options()},
		filter{Name: "errorClass", Label: v.t("deliveries.error"), Type: "select", Options: classes},
		filter{Name: "leadsId", Label: v.t("deliveries.lead"), Type: "number"},
	)
	found, err := v.gateway.listDeliveries(ctx, filters.query(v.r))
	if err != nil {
		return err
	}
	return v.render(page{Name: "deliveries", Title: v.t("deliveries.title"), Place: "deliveries", Live: 5, Data: deliveriesPage{
		Filters: filters, Items: found.Items, Journeys: journeys, Webhooks: webhooks, More: filters.more(found.NextCursor),
	}})
}
