package typesense

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// search answers one search of the stand-in.
func (c *shelf) search(p map[string]string) (int, string) {
	filter, err := parseFilter(c, p["filter_by"], 10_000)
	if err != nil {
		return said(400, err.Error())
	}
	order, err := parseOrder(c, p["sort_by"])
	if err != nil {
		return said(400, err.Error())
	}
	perPage, page := number(p, "per_page", 10), number(p, "page", 1)
	if perPage > maxPerPage {
		return said(422, "Only upto 250 hits can be fetched per page.")
	}
	found, matched := c.matches(p, filter)
	hits := slices.Collect(maps.Keys(found))
	scores := map[*shelved][]float64{}
	for _, d := range hits {
		scores[d] = order(d)
	}
	slices.SortFunc(hits, func(a, b *shelved) int {
		return cmp.Or(slices.Compare(scores[b], scores[a]), cmp.Compare(b.seq, a.seq))
	})
	first := min((page-1)*perPage, len(hits))
	shown := []any{}
	for _, d := range hits[first:min(first+perPage, len(hits))] {
		shown = append(shown, c.hit(d, p, matched))
	}
	return asJSON(200, map[string]any{"found": len(hits), "page": page, "search_cutoff": false, "hits": shown})
}

func (c *shelf) hit(d *shelved, p map[string]string, matched map[string]bool) any {
	values := maps.Clone(d.values)
	for name := range strings.SplitSeq(p["exclude_fields"], ",") {
		delete(values, name)
	}
	highlights := []any{}
	for name := range strings.SplitSeq(p["highlight_fields"], ",") {
		var here []string
		for _, token := range d.tokens[name] {
			if matched[token] && !slices.Contains(here, token) {
				here = append(here, token)
			}
		}
		if len(here) > 0 {
			highlights = append(highlights, map[string]any{"field": name, "matched_tokens": here})
		}
	}
	return map[string]any{"document": values, "highlights": highlights}
}

// matches are the documents that q and a filter find, and the tokens by which.
func (c *shelf) matches(p map[string]string, filter condition) (map[*shelved]bool, map[string]bool) {
	fields := strings.Split(p["query_by"], ",")
	left := map[*shelved]bool{}
	for _, d := range c.docs {
		if filter(d) {
			left[d] = true
		}
	}
	rest := phrase.ReplaceAllStringFunc(p["q"], func(quoted string) string {
		want := tokens(quoted)
		for d := range left {
			if !slices.ContainsFunc(fields, func(f string) bool { return sideBySide(d.tokens[f], want) }) {
				delete(left, d)
			}
		}
		return " "
	})
	words := tokens(rest)
	if p["q"] == "*" || len(words) == 0 {
		return left, nil
	}
	prefix := p["prefix"] == "true"
	found, matched := c.fuzzy(p, fields, words, prefix, left)
	if len(found) == 0 && p["split_join_tokens"] == "fallback" {
		if other := c.splitOrJoined(fields, words); other != nil {
			found, matched = c.fuzzy(p, fields, other, prefix && other[len(other)-1] == words[len(words)-1], left)
		}
	}
	return found, matched
}

var phrase = regexp.MustCompile(`"[^"]*"`)

func sideBySide(all, want []string) bool {
	for i := range all {
		if len(all)-i >= len(want) && slices.Equal(all[i:i+len(want)], want) {
			return true
		}
	}
	return false
}

// fuzzy finds documents with all words in any of the fields; with typing errors only if there
// are none without.
func (c *shelf) fuzzy(p map[string]string, fields, words []string, prefix bool, among map[*shelved]bool) (map[*shelved]bool, map[string]bool) {
	most := make([]int, len(words)) // errors of each word
	for i, word := range words {
		most[i] = min(number(p, "num_typos", 2), typos(word, p))
	}
	for total := 0; total <= slices.Max(most)*len(words); total++ {
		found, matched := map[*shelved]bool{}, map[string]bool{}
		for costs := range combinations(most, total) {
			here := maps.Clone(among)
			var used []string
			for i, word := range words {
				candidates := c.candidates(fields, word, prefix && i == len(words)-1, costs[i])
				used = append(used, candidates...)
				maps.DeleteFunc(here, func(d *shelved, _ bool) bool {
					return !slices.ContainsFunc(candidates, func(token string) bool {
						return slices.ContainsFunc(fields, func(f string) bool { return c.tokens[f][token][d] })
					})
				})
			}
			maps.Copy(found, here)
			for _, token := range used {
				matched[token] = true
			}
		}
		if len(found) > 0 {
			return found, matched
		}
	}
	return nil, nil
}

// typos is how many errors the server looks for in a token: none where it holds anything but
// ASCII letters and digits, or digits only, if these are switched off.
func typos(token string, p map[string]string) int {
	letters := strings.Trim(token, "0123456789")
	if p["enable_typos_for_alpha_numerical_tokens"] == "false" && strings.ContainsFunc(token, func(r rune) bool { return r > 'z' || r == '+' || r == '#' }) ||
		p["enable_typos_for_numerical_tokens"] == "false" && letters == "" || len(token) < number(p, "min_len_1typo", 4) {
		return 0
	}
	if len(token) < number(p, "min_len_2typo", 7) {
		return 1
	}
	return 2
}

// combinations are the numbers of errors of each word that make a total.
func combinations(most []int, total int) func(func([]int) bool) {
	return func(yield func([]int) bool) {
		costs := make([]int, len(most))
		var next func(i, left int) bool
		next = func(i, left int) bool {
			if i == len(most) {
				return left > 0 || yield(costs)
			}
			for costs[i] = 0; costs[i] <= min(most[i], left); costs[i]++ {
				if !next(i+1, left-costs[i]) {
					return false
				}
			}
			return true
		}
		next(0, total)
	}
}

// candidates are the tokens of fields that a word stands for with so many errors.
func (c *shelf) candidates(fields []string, word string, prefix bool, errors int) []string {
	var all []string
	for _, f := range fields {
		if errors == 0 && !prefix {
			if c.tokens[f][word] != nil {
				all = append(all, word)
			}
			continue
		}
		for token := range c.tokens[f] {
			if errors == 0 && strings.HasPrefix(token, word) || errors > 0 && distance(word, token, prefix) == errors {
				all = append(all, token)
			}
		}
	}
	return all
}

// distance is how many letters are left out, added, other ones or swapped in a token, or in
// a beginning of it.
func distance(word, token string, prefix bool) int {
	if len(token) > len(word)+2 && !prefix || len(token)+2 < len(word) {
		return 9
	}
	rows := make([][]int, len(word)+1)
	for i := range rows {
		rows[i] = make([]int, len(token)+1)
		for j := range rows[i] {
			if i == 0 || j == 0 {
				rows[i][j] = i + j
				continue
			}
			change := 1
			if word[i-1] == token[j-1] {
				change = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+change)
			if i > 1 && j > 1 && word[i-1] == token[j-2] && word[i-2] == token[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	if prefix {
		return slices.Min(rows[len(word)])
	}
	return rows[len(word)][len(token)]
}

// splitOrJoined are words of which one is taken for two, or two for one, if they stand
// somewhere; nil otherwise.
func (c *shelf) splitOrJoined(fields, words []string) []string {
	there := func(token string) bool {
		return slices.ContainsFunc(fields, func(f string) bool { return c.tokens[f][token] != nil })
	}
	for i, word := range words {
		if i+1 < len(words) && there(word+words[i+1]) {
			return slices.Concat(words[:i], []string{word + words[i+1]}, words[i+2:])
		}
	}
	for i, word := range words {
		for at := 1; at < len(word); at++ {
			if there(word[:at]) && there(word[at:]) {
				return slices.Concat(words[:i], []string{word[:at], word[at:]}, words[i+1:])
			}
		}
	}
	return nil
}

// condition tells whether a document passes a filter.
type condition func(*shelved) bool

// maxOperations bounds a filter: its conditions and the signs between them.
const maxOperations = 100

// prefixesInFilter is how many words a beginning stands for in a condition of sort_by.
const prefixesInFilter = 4

var filterToken = regexp.MustCompile("^\\s*(&&|\\|\\||\\(|\\)|([a-z_]+):(=|<=|)((?:`[^`]*`)(?:\\*)?|[^\\s()`]+))")

// parseFilter reads a filter of conditions, &&, || and parentheses.
func parseFilter(c *shelf, filter string, prefixes int) (condition, error) {
	operations := 0
	var fault, empty error
	next := func() []string {
		m := filterToken.FindStringSubmatch(filter)
		if m == nil {
			m = []string{"", ""}
		}
		return m
	}
	var either func() condition
	one := func() condition {
		m := next()
		filter = filter[len(m[0]):]
		if m[1] == "(" {
			inner := either()
			filter = filter[len(next()[0]):]
			return inner
		}
		operations++
		if m[1] == "" {
			fault = complaint("Could not parse the filter query.")
			filter = ""
			return nil
		}
		cond, err := c.condition(m[2], m[3], m[4], prefixes)
		var nothing emptyValue
		switch {
		case errors.As(err, &nothing):
			empty = nothing
			return func(*shelved) bool { return false }
		case err != nil && fault == nil:
			fault = err
		}
		return cond
	}
	joined := func(sign string, one func() condition, join func(a, b bool) bool) func() condition {
		return func() condition {
			all := one()
			for next()[1] == sign {
				operations++
				filter = filter[len(next()[0]):]
				before, other := all, one()
				all = func(d *shelved) bool { return join(before(d), other(d)) }
			}
			return all
		}
	}
	both := joined("&&", one, func(a, b bool) bool { return a && b })
	either = joined("||", both, func(a, b bool) bool { return a || b })
	all := either()
	switch {
	case operations > maxOperations:
		return nil, complaint("`filter_by` has too many operations. Maximum allowed: 100.")
	case operations == 1 && empty != nil: // beside other conditions it is none (j11)
		return nil, empty
	case fault == nil && strings.TrimSpace(filter) != "":
		fault = complaint("Could not parse the filter query.")
	}
	return all, fault
}

// complaint is an error in the server's words.
func complaint(format string, args ...any) error { return complained(fmt.Sprintf(format, args...)) }

type complained string

func (c complained) Error() string { return string(c) }

// emptyValue is the fault of a condition without a letter, for this field.
type emptyValue string

func (e emptyValue) Error() string {
	return "Error with filter field `" + string(e) + "`: Filter value cannot be empty."
}

// condition is one condition on a field.
func (c *shelf) condition(field, sign, value string, prefixes int) (condition, error) {
	kind, known := c.fields[field]
	if !known {
		return nil, complaint("Could not find a filter field named `%s` in the schema.", field)
	}
	value, begins := strings.CutSuffix(value, "*")
	value = strings.Trim(value, "`")
	switch kind {
	case "bool":
		return func(d *shelved) bool { return d.values[field] == (value == "true") }, nil
	case "int32", "int64":
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, complaint("Error with filter field `%s`: Not an %s.", field, kind)
		}
		return func(d *shelved) bool { return d.values[field].(float64) <= n }, nil
	}
	want := tokens(value)
	if len(want) == 0 {
		return nil, emptyValue(field)
	}
	if begins {
		var words []string
		for token := range c.tokens[field] {
			if strings.HasPrefix(token, want[0]) {
				words = append(words, token)
			}
		}
		slices.SortFunc(words, func(a, b string) int {
			return cmp.Or(cmp.Compare(len(c.tokens[field][b]), len(c.tokens[field][a])), cmp.Compare(b, a))
		})
		words = words[:min(len(words), prefixes)]
		return func(d *shelved) bool {
			return slices.ContainsFunc(words, func(token string) bool { return c.tokens[field][token][d] })
		}, nil
	}
	if sign == "=" {
		return func(d *shelved) bool { return slices.Equal(d.tokens[field], want) }, nil
	}
	return func(d *shelved) bool {
		return !slices.ContainsFunc(want, func(token string) bool { return !c.tokens[field][token][d] })
	}, nil
}

var evalTerm = regexp.MustCompile(`^\((.*)\):(\d+)$`)

// parseOrder reads what hits are sorted by: the scores of one _eval, and fields, descending.
func parseOrder(c *shelf, sortBy string) (func(*shelved) []float64, error) {
	var scores []func(*shelved) float64
	if terms, rest, found := strings.Cut(sortBy, "]):desc"); found {
		var conditions []condition
		var points []float64
		for _, term := range strings.Split(strings.TrimPrefix(terms, "_eval(["), ", ") {
			m := evalTerm.FindStringSubmatch(term)
			if m == nil {
				return nil, complaint("Error parsing eval expression in sort_by clause.")
			}
			cond, err := parseFilter(c, m[1], prefixesInFilter)
			if err != nil {
				return nil, err
			}
			score, _ := strconv.ParseFloat(m[2], 64)
			conditions, points = append(conditions, cond), append(points, score)
		}
		scores = append(scores, func(d *shelved) float64 {
			for i, cond := range conditions {
				if cond(d) {
					return points[i]
				}
			}
			return 0
		})
		sortBy = strings.TrimPrefix(rest, ",")
	}
	for field := range strings.SplitSeq(sortBy, ",") {
		name, descending := strings.CutSuffix(field, ":desc")
		if c.fields[name] == "" || !descending {
			return nil, complaint("Could not find a field named `%s` in the schema for sorting.", name)
		}
		scores = append(scores, func(d *shelved) float64 { return d.values[name].(float64) })
	}
	return func(d *shelved) []float64 {
		all := make([]float64, len(scores))
		for i, score := range scores {
			all[i] = score(d)
		}
		return all
	}, nil
}
