package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"waypost/api"
)

// filter is one filter of a list, for the partial "filters". Its value is in the URL, so
// that a view can be kept and sent to others.
type filter struct {
	Name, Label, Value string
	// Type is text if "", search, number, select, several (values with commas between them),
	// datetime-local (of Zone), or id (of what a link has named: it can only be taken out).
	Type    string
	Options []option
	Always  bool // one of the options is chosen, the first if none is
	Further bool // stands below the others, and is hidden until it is asked for or set
	Zone    *time.Location

	// Said is what people call the value, "" if that is not known; for type id.
	Said string

	without string // for type id: the address of the list without it
}

// Has tells whether a value is chosen, for type several.
func (f filter) Has(value string) bool { return slices.Contains(strings.Split(f.Value, ","), value) }

// Chosen says what is chosen, for type several.
func (f filter) Chosen() string {
	var labels []string
	for _, o := range f.Options {
		if f.Has(o.Value) {
			labels = append(labels, o.Label)
		}
	}
	return strings.Join(labels, ", ")
}

// Without is the address of the list without this filter.
func (f filter) Without() string { return f.without }

// wire is the value as the gateway reads it.
func (f filter) wire() string {
	if f.Type != "datetime-local" {
		return f.Value
	}
	for _, layout := range []string{localMinute, localSecond} {
		if at, err := time.ParseInLocation(layout, f.Value, f.Zone); err == nil {
			return at.UTC().Format(time.RFC3339)
		}
	}
	return f.Value
}

// How browsers write datetime-local.
const (
	localMinute = "2006-01-02T15:04"
	localSecond = "2006-01-02T15:04:05"
)

// filterBar is what the partial "filters" shows.
type filterBar struct {
	Path           string
	Filters        []filter
	Active         bool // some filter is set
	Further, Shown bool // there are further ones; one of them is set
}

// newFilterBar gives each filter its value, which the URL has.
func newFilterBar(r *http.Request, filters ...filter) filterBar {
	bar := filterBar{Path: r.URL.Path, Filters: filters}
	query := r.URL.Query()
	for i := range bar.Filters {
		f := &bar.Filters[i]
		f.Value = strings.TrimSpace(query.Get(f.Name))
		switch f.Type {
		case "several":
			f.Value = strings.Join(query[f.Name], ",")
		case "datetime-local": // a link may have the gateway's form
			if at, err := time.Parse(time.RFC3339, f.Value); err == nil {
				f.Value = at.In(f.Zone).Format(localSecond)
			}
		}
		bar.Active = bar.Active || f.Value != ""
		bar.Further = bar.Further || f.Further
		bar.Shown = bar.Shown || f.Further && f.Value != ""
	}
	for i := range bar.Filters {
		if bar.Filters[i].Type != "id" {
			continue
		}
		without := bar.values()
		without.Del(bar.Filters[i].Name)
		bar.Filters[i].without = bar.at(without)
	}
	return bar
}

// say gives a filter what people call its value.
func (b filterBar) say(name, said string) {
	for i := range b.Filters {
		if b.Filters[i].Name == name {
			b.Filters[i].Said = said
		}
	}
}

// values are the filters that are set, as the URL of the list has them.
func (b filterBar) values() url.Values {
	query := url.Values{}
	for _, f := range b.Filters {
		if f.Value != "" {
			query.Set(f.Name, f.Value)
		}
	}
	return query
}

// at is the address of the list with other filters.
func (b filterBar) at(query url.Values) string {
	if len(query) == 0 {
		return b.Path
	}
	return b.Path + "?" + query.Encode()
}

// wire are the filters that are set, as the gateway reads them.
func (b filterBar) wire() url.Values {
	query := url.Values{}
	for _, f := range b.Filters {
		if f.Value != "" {
			query.Set(f.Name, f.wire())
		}
	}
	return query
}

// query is what the gateway is asked for: the filters that are set, and where the page
// begins.
func (b filterBar) query(r *http.Request) url.Values {
	query := b.wire()
	if cursor := r.URL.Query().Get("cursor"); cursor != "" {
		query.Set("cursor", string(cursor))
	}
	return query
}

// exports are the links to files of all that matches, at a path.
func (b filterBar) exports(path string) (out []link) {
	for _, format := range []string{"csv", "ndjson"} {
		query := b.values()
		query.Set("format", format)
		out = append(out, link{Path: path + "?" + query.Encode(), Text: strings.ToUpper(format)})
	}
	return out
}

// more is the address of the next page of the list, "" if there is none, for the partial
// "more".
func (b filterBar) more(cursor api.Cursor) string {
	if cursor == "" {
		return ""
	}
	query := b.values()
	query.Set("cursor", string(cursor))
	return b.at(query)
}
