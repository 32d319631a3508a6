package searchsvc

import (
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"waypost"
)

// Bounds of a query's parameters (docs/contract.md, "Search request").
const (
	DefaultPerPage = 10
	MaxPerPage     = 50
	MaxKeywords    = 512 // bytes
	maxPage        = math.MaxInt32
)

// Query is one search.
type Query struct {
	Stage    waypost.Stage // of the caller's token
	TenantID string
	From     waypost.Origin
	Keyword  Keyword
	Level    int // only articles that this user access level may see
	Page     int // from 1
	PerPage  int
}

// ParseQuery reads and checks the parameters of a search from the raw query of
// its URL, and reports all that is wrong with them as one BadRequest. Repeated
// and unknown parameters are wrong too. The level is MaxAccessLevel where
// user_access_level is not given; the stage is release until somebody sets it.
func ParseQuery(rawQuery string) (Query, error) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return Query{}, waypost.Errorf(waypost.CodeBadRequest, "", "the query string is not encoded as URLs ask for")
	}
	p := parameters{values: values}
	q := Query{
		Stage:    waypost.StageRelease,
		TenantID: p.required("tenant_id"),
		From:     waypost.Origin(p.required("from")),
		Level:    p.integer("user_access_level", waypost.MaxAccessLevel, 0, waypost.MaxAccessLevel),
		Page:     p.integer("_page", 1, 1, maxPage),
		PerPage:  p.integer("_per_page", DefaultPerPage, 1, MaxPerPage),
	}
	keywords := p.required("keywords")
	if q.TenantID != "" && !waypost.IsArticleKey(q.TenantID) {
		p.problems.Add(waypost.DetailInvalidFormat, "tenant_id", "must be 1 to 64 of letters, digits, '.', '_' and '-'")
	}
	if q.From != "" && !slices.Contains(waypost.Origins, q.From) {
		p.problems.Add(waypost.DetailInvalidFormat, "from", "must be frontend or admin")
	}
	switch {
	case len(keywords) > MaxKeywords:
		p.problems.Add(waypost.DetailTooLong, "keywords", "must be at most %d bytes in UTF-8", MaxKeywords)
	case !utf8.ValidString(keywords):
		p.problems.Add(waypost.DetailInvalidFormat, "keywords", "is not valid UTF-8")
	}
	p.refuseOthers()
	if err := p.problems.Err(""); err != nil {
		return Query{}, err
	}
	q.Keyword = ParseKeyword(keywords)
	return q, nil
}

type parameters struct {
	values   url.Values
	known    []string
	problems waypost.Problems
}

// one returns the value of a parameter that may be given once.
func (p *parameters) one(name string) (value string, given bool) {
	p.known = append(p.known, name)
	values := p.values[name]
	if len(values) > 1 {
		p.problems.Add(waypost.DetailDuplicate, name, "stands more than once")
	}
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

func (p *parameters) required(name string) string {
	value, _ := p.one(name)
	if strings.TrimSpace(value) == "" {
		p.problems.Add(waypost.DetailNullValue, name, "is missing or blank")
		return ""
	}
	return value
}

func (p *parameters) integer(name string, otherwise, least, most int) int {
	value, given := p.one(name)
	if !given {
		return otherwise
	}
	digits := strings.TrimPrefix(value, "-")
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		p.problems.Add(waypost.DetailInvalidType, name, "must be an integer")
		return otherwise
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		p.problems.Add(waypost.DetailOutOfRange, name, "must be %d to %d", least, most)
		return otherwise
	}
	return n
}

func (p *parameters) refuseOthers() {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !slices.Contains(p.known, name) {
			shown := strings.ToValidUTF8(name[:min(len(name), 64)], "\uFFFD")
			p.problems.Add(waypost.DetailUnknownField, shown, "there is no parameter of this name")
		}
	}
}
