package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// maxQueryValue bounds one query parameter, in bytes.
const maxQueryValue = 1024

// checkQuery reads the query parameters: unknown, repeated, empty and undecodable
// ones are refused, all at once. A list refuses them in page, together with those
// whose values it does not take.
func (a *api) checkQuery(r *request) error {
	var p waypost.Problems
	r.params = map[string]string{}
	for piece := range strings.SplitSeq(r.query, "&") {
		if piece == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(piece, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil || !slices.Contains(r.route.query, name) {
			p.Add(waypost.DetailUnknownField, clip(rawName), "there is no query parameter of this name")
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		_, repeated := r.params[name]
		before := len(p)
		switch {
		case repeated:
			p.Add(waypost.DetailDuplicate, name, "stands twice")
		case err != nil || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
			p.Add(waypost.DetailInvalidFormat, name, "is not percent-encoded UTF-8 text")
		case value == "":
			p.Add(waypost.DetailNullValue, name, "is empty; leave it out")
		case len(value) > maxQueryValue:
			p.Add(waypost.DetailTooLong, name, "must be at most %d bytes", maxQueryValue)
		}
		if len(p) == before {
			r.params[name] = value
		}
	}
	if slices.Contains(r.route.query, "cursor") {
		r.queryFaults = p
		return nil
	}
	return p.Err("query")
}

// clip keeps what is repeated in an answer short and printable.
func clip(s string) string {
	if len(s) > 64 {
		s = s[:64] + "…"
	}
	return strings.ToValidUTF8(s, "")
}

// integer reads an integer parameter of low to high; absent is def.
func (r *request) integer(p *waypost.Problems, name string, low, high, def int64) int64 {
	raw, given := r.params[name]
	if !given {
		return def
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		p.Add(waypost.DetailInvalidType, name, "must be an integer%s", plusHint(raw))
		return def
	}
	if err != nil || n < low || n > high {
		p.Add(waypost.DetailOutOfRange, name, "must be %d to %d", low, high)
	}
	return n
}

// moment reads a time parameter; absent is the zero time.
func (r *request) moment(p *waypost.Problems, name string) time.Time {
	raw, given := r.params[name]
	if !given {
		return time.Time{}
	}
	return moment(p, name, raw, plusHint(raw))
}

// moment reads a time (docs/contract.md, "Values"); hint is added to the fault of one that
// is none.
func moment(p *waypost.Problems, target, raw, hint string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, raw)
	if err != nil {
		p.Add(waypost.DetailInvalidFormat, target, "must be a time like 2026-01-31T12:00:00Z%s", hint)
	} else if year := t.UTC().Year(); year < 1 || year > 9999 {
		p.Add(waypost.DetailOutOfRange, target, "must lie in the years 1 to 9999")
		return time.Time{}
	}
	return t
}

// plusHint says what to do where a + of a query became a blank, as it does in HTML forms;
// "" where there is no blank.
func plusHint(raw string) string {
	if !strings.Contains(raw, " ") {
		return ""
	}
	return "; it has a blank: a + in a query stands for one, so write + as %2B"
}

// checkLostPlus refuses a parameter that begins with a blank: it was a +, without which a
// number can be that of another country. Invisible characters may stand before it.
func checkLostPlus(p *waypost.Problems, name string, raw *string) {
	if raw == nil {
		return
	}
	seen := strings.TrimLeftFunc(*raw, func(r rune) bool { return r != ' ' && waypost.CleanKey(string(r)) == "" })
	if strings.HasPrefix(seen, " ") {
		p.Add(waypost.DetailInvalidFormat, name, "begins with a blank: a + in a query stands for one, so write + as %%2B, and leave a blank out")
	}
}

// inOrder notes a span of time that ends before it begins: nothing can lie in it. Ends
// that are not given, or faulty themselves, are zero.
func inOrder(p *waypost.Problems, path, from, to string, begin, end time.Time) {
	if !begin.IsZero() && !end.IsZero() && begin.After(end) {
		p.Add(waypost.DetailOutOfRange, path+from, "must not be later than %s", to)
	}
}

// list is a page of a list.
type list[T any] struct {
	Items      []T     `json:"items"`
	NextCursor *string `json:"nextCursor"`
}

// page reads limit and cursor, and adds what checkQuery found. A list asks for one
// row more than it answers, to know whether there are more.
func (r *request) page(p *waypost.Problems) waypost.Page {
	*p = append(*p, r.queryFaults...)
	page := waypost.Page{Limit: int(r.integer(p, "limit", 1, waypost.MaxPageSize, waypost.DefaultPageSize))}
	raw, given := r.params["cursor"]
	if !given {
		return page
	}
	b, err := base64.RawURLEncoding.DecodeString(raw)
	bound := r.filterHash()
	if err != nil || len(b) <= len(bound) || subtle.ConstantTimeCompare(b[:len(bound)], bound) != 1 {
		p.Add(waypost.DetailInvalidFormat, "cursor", "is not a cursor of this list with these filters")
		return page
	}
	page.After = string(b[len(bound):])
	return page
}

// filterHash names the list that a cursor belongs to: its path, its partition and
// its filters.
func (r *request) filterHash() []byte {
	parts := []string{r.scope.Org, string(r.scope.Stage), r.path}
	for _, name := range r.route.query {
		if value, given := r.params[name]; given && name != "limit" && name != "cursor" {
			parts = append(parts, name, value)
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return sum[:8]
}

// listOf makes the answer from the rows that were asked for with one more than
// limit; id is what the next page follows.
func listOf[R, T any](r *request, limit int, rows []R, id func(R) string, convert func(R) T) list[T] {
	var next *string
	if len(rows) > limit {
		rows = rows[:limit]
		cursor := base64.RawURLEncoding.EncodeToString(append(r.filterHash(), id(rows[len(rows)-1])...))
		next = &cursor
	}
	items := make([]T, len(rows))
	for i, row := range rows {
		items[i] = convert(row)
	}
	return list[T]{items, next}
}

// oneMore is the page with the row that tells whether there are more.
func oneMore(p waypost.Page) waypost.Page {
	p.Limit++
	return p
}
