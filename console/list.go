package console

import (
	"net/http"
	"net/url"
	"strings"
)

// filter is one filter of a list, for the partial "filters". Its value is in the URL, so
// that a view can be kept and sent to others.
type filter struct {
	Name, Label, Value string
	Type               string // text if "", search, number, datetime-local, select
	Options            []option
	Always             bool // one of the options is chosen, the first if none is
}

// filterBar is what the partial "filters" shows.
type filterBar struct {
	Path    string
	Filters []filter
	Active  bool // some filter is set
}

// newFilterBar gives each filter its value, which the URL has.
func newFilterBar(r *http.Request, filters ...filter) filterBar {
	bar := filterBar{Path: r.URL.Path, Filters: filters}
	for i := range bar.Filters {
		bar.Filters[i].Value = strings.TrimSpace(r.URL.Query().Get(bar.Filters[i].Name))
		bar.Active = bar.Active || bar.Filters[i].Value != ""
	}
	return bar
}

// query is what the gateway is asked for: the filters that are set, and where the page
// begins.
func (b filterBar) query(r *http.Request) url.Values {
	query := url.Values{}
	for _, f := range b.Filters {
		if f.Value != "" {
			query.Set(f.Name, f.Value)
		}
	}
	if cursor := r.URL.Query().Get("cursor"); cursor != "" {
		query.Set("cursor", cursor)
	}
	return query
}

// more is the address of the next page of the list, "" if there is none, for the partial
// "more".
func (b filterBar) more(cursor string) string {
	if cursor == "" {
		return ""
	}
	query := url.Values{"cursor": {cursor}}
	for _, f := range b.Filters {
		if f.Value != "" {
			query.Set(f.Name, f.Value)
		}
	}
	return b.Path + "?" + query.Encode()
}
