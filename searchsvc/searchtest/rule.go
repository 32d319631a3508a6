package searchtest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"waypost"
	"waypost/searchsvc"
)

// rule is what a search must find, and in which order, by looking at every article:
// the rule of expected.json. Engines may find more for words with typing errors.
func rule(docs []searchsvc.Document, a ask) []searchsvc.Document {
	a = a.complete()
	level := a.level
	if user, err := strconv.Atoi(a.user); err == nil {
		level = min(level, user)
	}
	return ruleOf(docs, searchsvc.Query{Stage: a.stage, TenantID: a.tenant, From: a.from, Level: level, Keyword: searchsvc.ParseKeyword(a.keyword)})
}

// ruleOf is the rule for a query, without its page.
func ruleOf(docs []searchsvc.Document, q searchsvc.Query) []searchsvc.Document {
	parts := q.Keyword.Parts
	last := len(parts) - 1
	for last >= 0 && parts[last].Kind != searchsvc.PartWord {
		last--
	}
	var found []searchsvc.Document
	inName := map[string]bool{}
	for _, d := range docs {
		if d.Stage != q.Stage || d.TenantID != q.TenantID || d.VisibleFrom() > q.Level || !d.Published && q.From == waypost.FromFrontend {
			continue
		}
		name, content := fold(d.Name), fold(d.Content)
		all, named := len(parts) > 0, true
		for i, p := range parts {
			holds := func(text string) bool { return holdsPart(text, fold(p.Text), p.Kind, i == last) }
			all = all && (holds(name) || holds(content))
			named = named && holds(name)
		}
		if all {
			found = append(found, d)
			inName[d.Key] = named
		}
	}
	slices.SortStableFunc(found, func(x, y searchsvc.Document) int {
		if inName[x.Key] != inName[y.Key] {
			if inName[x.Key] {
				return -1
			}
			return 1
		}
		return cmp.Compare(y.PublishedAt.UnixMilli(), x.PublishedAt.UnixMilli())
	})
	return found
}

// holdsPart tells whether a folded text holds a folded part of a keyword.
func holdsPart(text, part string, kind searchsvc.PartKind, prefix bool) bool {
	if kind != searchsvc.PartWord {
		return strings.Contains(text, part)
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !inWord(r) }) {
		if word == part || prefix && strings.HasPrefix(word, part) {
			return true
		}
	}
	return false
}

func inWord(r rune) bool {
	return !searchsvc.IsCJK(r) && (r == '+' || r == '#' || unicode.In(r, unicode.L, unicode.Nd, unicode.M))
}

// fold makes equal what means the same in a search.
func fold(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= '一' && r <= '鿿': // most of the text
			return r
		case r >= '！' && r <= '～':
			r -= '！' - '!'
		}
		return unicode.ToLower(r)
	}, s)
}
