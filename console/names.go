package console

import (
	"context"
	"net/url"
	"slices"

	"waypost"
	"waypost/api"
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
	all, err := get[api.List[named]](ctx, g, waypost.GrantJourneysRead, "/v1/journeys", url.Values{"limit": {mostNames}})
	return all.Items, err
}

func (g gateway) webhookNames(ctx context.Context) (names, error) {
	all, err := get[api.List[named]](ctx, g, waypost.GrantWebhooksRead, "/v1/webhooks", url.Values{"limit": {mostNames}})
	return all.Items, err
}

func (g gateway) segmentNames(ctx context.Context) (names, error) {
	all, err := get[api.List[named]](ctx, g, waypost.GrantSegmentsRead, segmentsPath, url.Values{"limit": {mostNames}})
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

// inVersion is a version of a journey.
type inVersion struct {
	Journey string
	Version int
}

// stepNames are what people call the nodes of journeys, by version.
type stepNames map[inVersion]definition

// mostVersions bounds the definitions that a page reads for the names of nodes.
const mostVersions = 16

// Of is what people call a node, its id if the version was not read.
func (ns stepNames) Of(journey string, version int, node string) string {
	return ns[inVersion{journey, version}].title(node)
}

// stepNames reads the names of the nodes in some versions, of the first if there are many.
func (v *visit) stepNames(versions []inVersion) (stepNames, error) {
	var asked []inVersion
	for _, of := range versions {
		if of.Journey != "" && !slices.Contains(asked, of) && len(asked) < mostVersions {
			asked = append(asked, of)
		}
	}
	read := make([]definition, len(asked))
	var calls []func() error
	for i, of := range asked {
		calls = append(calls, func() error {
			published, err := v.gateway.version(v.r.Context(), of.Journey, of.Version)
			if err := unlessGone(err); err != nil {
				return err
			}
			read[i], err = define(published.Definition)
			return err
		})
	}
	if err := together(calls...); err != nil {
		return nil, err
	}
	ns := stepNames{}
	for i, of := range asked {
		ns[of] = read[i]
	}
	return ns, nil
}
