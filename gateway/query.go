package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waypost"
	"waypost/api"
)

// maxQueryValue bounds one query parameter, in bytes.
const maxQueryValue = 1024

// checkQuery reads the query parameters: unknown, repeated, empty and undecodable
// ones are refused, all at once. A list refuses them together with those whose values it
// does not take.
func (a *server) checkQuery(r *request) error {
	p := &r.queryFaults
	r.params = map[string]string{}
	for piece := range strings.SplitSeq(r.query, "&") {
		if piece == "" {
			continue
		}
		rawName, rawValue, _ := strings.Cut(piece, "=")
		name, err := url.QueryUnescape(rawName)
		if err != nil || !r.route.knows(name) {
			p.Add(waypost.DetailUnknownField, clip(rawName), "there is no query parameter of this name")
			continue
		}
		value, err := url.QueryUnescape(rawValue)
		_, repeated := r.params[name]
		before := len(*p)
		switch {
		case repeated:
			p.Add(waypost.DetailDuplicate, name, "stands twice")
		case err != nil || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
			p.Add(waypost.DetailInvalidFormat, name, "must be percent-encoded UTF-8 text without control characters")
		case value == "":
			p.Add(waypost.DetailNullValue, name, "is empty; leave it out")
		case len(value) > maxQueryValue:
			p.Add(waypost.DetailTooLong, name, "must be at most %d bytes", maxQueryValue)
		}
		if len(*p) == before {
			r.params[name] = value
		}
	}
	if slices.Contains(r.route.query, "cursor") {
		r.readPage()
		return nil
	}
	return p.Err("query")
}

// knows tells whether the route has a query parameter of this name.
func (rt *route) knows(name string) bool {
	return slices.Contains(rt.query, name) || strings.HasPrefix(name, customFieldsPrefix) && slices.Contains(rt.query, customFieldQuery)
}

// clip keeps what is repeated in an answer short and printable.
func clip(s string) string {
	if len(s) > 64 {
		s = s[:64] + "…"
	}
	return strings.ToValidUTF8(s, "")
}

// text returns a parameter, nil if it is absent.
func (r *request) text(name string) *string {
	if value, given := r.params[name]; given {
		return &value
	}
	return nil
}

// boolean reads a parameter that is true or false; absent is false.
func (r *request) boolean(name string) bool {
	value, given := r.params[name]
	if given && value != "true" && value != "false" {
		r.queryFaults.Add(waypost.DetailInvalidType, name, "must be true or false")
	}
	return value == "true"
}

// short reads a text parameter of up to limit characters; absent is "".
func (r *request) short(name string, limit int) string {
	value := r.params[name]
	if utf8.RuneCountInString(value) > limit {
		r.queryFaults.Add(waypost.DetailTooLong, name, "must be at most %d characters", limit)
	}
	return value
}

// oneOf reads a parameter that is one of some values; absent is "".
func oneOf[T ~string](r *request, name string, values []T) T {
	value := T(r.params[name])
	if value != "" && !slices.Contains(values, value) {
		words := make([]string, len(values))
		for i, v := range values {
			words[i] = string(v)
		}
		last := len(words) - 1
		r.queryFaults.Add(waypost.DetailOutOfRange, name, "must be %s or %s", strings.Join(words[:last], ", "), words[last])
	}
	return value
}

// integer reads an integer parameter of low to high; absent is def.
func (r *request) integer(name string, low, high, def int64) int64 {
	raw, given := r.params[name]
	if !given {
		return def
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		r.queryFaults.Add(waypost.DetailInvalidType, name, "must be an integer%s", plusHint(raw))
		return def
	}
	if err != nil || n < low || n > high {
		r.queryFaults.Add(waypost.DetailOutOfRange, name, "must be %d to %d", low, high)
	}
	return n
}

// integers reads a parameter of one to limit integers with commas between; absent is nil.
func (r *request) integers(name string, limit int) []int64 {
	raw, given := r.params[name]
	if !given {
		return nil
	}
	texts := strings.Split(raw, ",")
	if len(texts) > limit {
		r.queryFaults.Add(waypost.DetailOutOfRange, name, "must be at most %d integers", limit)
		return nil
	}
	numbers := make([]int64, len(texts))
	for i, text := range texts {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			r.queryFaults.Add(waypost.DetailInvalidType, name, "must be integers with commas between, not %q", clip(text))
			return nil
		}
		numbers[i] = n
	}
	return numbers
}

// moment reads a time parameter; absent is the zero time.
func (r *request) moment(name string) time.Time {
	return moment(&r.queryFaults, name, r.text(name), plusHint(r.params[name]))
}

// oldestFirst reads the parameter sort of a list that has one order, newest first by default.
func (r *request) oldestFirst(order string) bool {
	sort, given := r.params["sort"]
	if given && sort != order && sort != "-"+order {
		r.queryFaults.Add(waypost.DetailOutOfRange, "sort", "must be %[1]s or -%[1]s", order)
	}
	return sort == order
}

// every reads the parameter of that name, the length of an interval; absent is "".
func (r *request) every() waypost.StatisticsSpan {
	every := waypost.StatisticsSpan(r.params["every"])
	if every != "" && every != waypost.StatisticsHour && every != waypost.StatisticsDay {
		r.queryFaults.Add(waypost.DetailOutOfRange, "every", "must be hour or day")
	}
	return every
}

// moment reads a time (docs/contract.md, "Values"); absent is the zero time. hint is
// added to the fault of a text that is no time.
func moment(p *waypost.Problems, target string, raw *string, hint string) time.Time {
	if raw == nil {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, *raw)
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

// readPage reads limit and cursor.
func (r *request) readPage() {
	r.page.Limit = int(r.integer("limit", 1, waypost.MaxPageSize, waypost.DefaultPageSize))
	raw, given := r.params["cursor"]
	if !given {
		return
	}
	b, err := base64.RawURLEncoding.DecodeString(raw)
	bound := r.filterHash()
	if err != nil || len(b) <= len(bound) || subtle.ConstantTimeCompare(b[:len(bound)], bound) != 1 {
		r.queryFaults.Add(waypost.DetailInvalidFormat, "cursor", "is not a cursor of this list with these filters")
		return
	}
	r.page.After = string(b[len(bound):])
}

// filterHash names the list that a cursor belongs to: its path, its partition and
// its filters.
func (r *request) filterHash() []byte {
	parts := []string{r.scope.Org, string(r.scope.Stage), r.path}
	for _, name := range slices.Sorted(maps.Keys(r.params)) {
		if name != "limit" && name != "cursor" {
			parts = append(parts, name, r.params[name])
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return sum[:8]
}

// answerPage answers with the rows of a page, unless the query is faulty; id is what the
// next page follows.
func answerPage[R, T any](
	r *request, load func(waypost.Page) ([]R, error), id func(R) string, describe func(R) T,
) (answer, error) {
	if err := r.queryFaults.Err("query"); err != nil {
		return answer{}, err
	}
	// A row beyond the limit shows that there is a next page.
	rows, err := load(waypost.Page{After: r.page.After, Limit: r.page.Limit + 1})
	if err != nil {
		return answer{}, err
	}
	next := ""
	if len(rows) > r.page.Limit {
		rows = rows[:r.page.Limit]
		next = id(rows[len(rows)-1])
	}
	return ok(api.List[T]{Items: described(rows, describe), NextCursor: r.cursor(next)})
}

// cursor is what a client sends for the page that follows a place; "" for "".
func (r *request) cursor(place string) api.Cursor {
	if place == "" {
		return ""
	}
	return api.Cursor(base64.RawURLEncoding.EncodeToString(append(r.filterHash(), place...)))
}

// described is the answer's form of things in a list, which is never null.
func described[R, T any](things []R, describe func(R) T) []T {
	out := make([]T, len(things))
	for i, thing := range things {
		out[i] = describe(thing)
	}
	return out
}
