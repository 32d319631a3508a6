package console

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"

	"waypost"
	"waypost/api"
)

// auditEntry is an entry of the audit log.
type auditEntry struct{ api.AuditEntry }

// Was and Is are the two sides of the change as people read them, "" for nothing.
func (e auditEntry) Was() string { return indented(json.RawMessage(e.Before)) }
func (e auditEntry) Is() string  { return indented(json.RawMessage(e.After)) }

// Thing and Did are the two parts of the action.
func (e auditEntry) Thing() string { thing, _, _ := strings.Cut(e.Action, "."); return thing }
func (e auditEntry) Did() string   { _, did, _ := strings.Cut(e.Action, "."); return did }

// lead is the lead that the entry is of, 0 if it is of none.
func (e auditEntry) lead() int64 {
	if e.Thing() != "lead" {
		return 0
	}
	id, _ := strconv.ParseInt(e.Target, 10, 64)
	return id
}

// Path is where the target has a page, "" if it has none.
func (e auditEntry) Path() string {
	if e.Did() == "delete" {
		return ""
	}
	if e.lead() != 0 {
		return "/leads/" + e.Target
	}
	for prefix, path := range map[string]string{
		waypost.PrefixJourney: "/journeys/", waypost.PrefixLaunch: "/launches/", waypost.PrefixWebhook: "/webhooks/",
		waypost.PrefixEnrollment: "/enrollments/", waypost.PrefixMessage: "/deliveries/",
		waypost.PrefixSubscription: "/subscriptions/", waypost.PrefixSegment: "/segments/",
	} {
		if strings.HasPrefix(e.Target, prefix) {
			return path + e.Target
		}
	}
	return ""
}

func (g gateway) listAudit(ctx context.Context, query url.Values) (api.List[auditEntry], error) {
	return get[api.List[auditEntry]](ctx, g, waypost.GrantAuditRead, "/v1/audit", query)
}

// auditPage is the data of the audit log.
type auditPage struct {
	Filters                      filterBar
	Items                        []auditEntry
	More                         string
	Journeys, Webhooks, Segments names
	Leads                        leadNames
	Users                        names // by id
}

// Name is what people call the target of an entry, "" if that has no name, or is gone.
func (p auditPage) Name(e auditEntry) string {
	for _, ns := range []names{p.Journeys, p.Webhooks, p.Segments, p.Users} {
		if name := ns.Of(e.Target); name != e.Target {
			return name
		}
	}
	return p.Leads[e.lead()]
}

// userNames are the e-mail addresses of the users by their ids.
func (v *visit) userNames() (names, error) {
	all, err := v.Users.Users(v.r.Context())
	var found names
	for _, u := range all {
		found = append(found, named{ID: u.ID, Name: u.Email})
	}
	return found, err
}

// audit shows a page of the log. The names of its targets are read beside it; a lead that is gone
// has none.
func (v *visit) audit() error {
	filters := newFilterBar(v.r,
		filter{Name: "actor", Label: v.t("audit.actor"), Type: "search"},
		filter{Name: "target", Label: v.t("audit.target"), Type: "search"},
		filter{Name: "from", Label: v.t("audit.from"), Type: "datetime-local", Zone: v.chosen.Zone},
		filter{Name: "to", Label: v.t("audit.to"), Type: "datetime-local", Zone: v.chosen.Zone},
	)
	p := auditPage{Filters: filters}
	err := together(func() error {
		found, err := v.gateway.listAudit(v.r.Context(), filters.query(v.r))
		if err != nil {
			return err
		}
		p.Items, p.More = found.Items, filters.more(found.NextCursor)
		var leads []int64
		for _, e := range p.Items {
			leads = append(leads, e.lead())
		}
		p.Leads, err = v.leadNames(leads)
		return err
	}, func() (err error) {
		p.Journeys, p.Webhooks, err = v.gateway.bothNames(v.r.Context())
		return err
	}, func() (err error) {
		p.Users, err = v.userNames()
		return err
	}, func() (err error) {
		p.Segments, err = v.gateway.segmentNames(v.r.Context())
		return err
	})
	if err != nil {
		return err
	}
	return v.render(page{Name: "audit", Title: v.t("audit.title"), Place: "audit", Data: p})
}
