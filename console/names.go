package console

import (
	"context"
	"net/url"
	"slices"

	"waypost"
)

// named is what has an id and a name: a journey, a webhook, a segment.
type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// mostNames bounds how many names a page asks for. Ids of those beyond are shown as they are.
const mostNames = "500"

// names are the names of a kind of resource, newest first, as pickers offer them.
type names []named

// Of is the name of an id, or the id itself.
func (ns names) Of(id string) string {
	for _, n := range ns {
		if n.ID == id {
			return n.Name
		}
	}
	return id
}

// with are the names and that of an id that is not among them, "" for none: the id itself.
func (ns names) with(id string) names {
	if id == "" || slices.ContainsFunc(ns, func(n named) bool { return n.ID == id }) {
		return ns
	}
	return append(slices.Clone(ns), named{id, id})
}

// options are the choices of a filter.
func (ns names) options() []option {
	out := make([]option, len(ns))
	for i, n := range ns {
		out[i] = option{n.ID, n.Name}
	}
	return out
}

func (g gateway) journeyNames(ctx context.Context) (names, error) {
	all, err := get[list[named]](ctx, g, waypost.GrantJourneysRead, "/v1/journeys", url.Values{"limit": {mostNames}})
	return all.Items, err
}

func (g gateway) webhookNames(ctx context.Context) (names, error) {
	all, err := get[list[named]](ctx, g, waypost.GrantWebhooksRead, "/v1/webhooks", url.Values{"limit": {mostNames}})
	return all.Items, err
}

func (g gateway) segmentNames(ctx context.Context) (names, error) {
	all, err := get[list[named]](ctx, g, waypost.GrantSegmentsRead, segmentsPath, url.Values{"limit": {mostNames}})
	return all.Items, err
}

// bothNames are the names of all journeys and of all webhooks.
func (g gateway) bothNames(ctx context.Context) (journeys, webhooks names, err error) {
	err = together(func() (err error) {
		journeys, err = g.journeyNames(ctx)
		return err
	}, func() (err error) {
		webhooks, err = g.webhookNames(ctx)
		return err
	})
	return journeys, webhooks, err
}
