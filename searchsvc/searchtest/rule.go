package searchtest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"

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
	var found []searchsvc.Document
	rank := map[string]int{}
	for _, d := range docs {
		if d.Stage != q.Stage || d.TenantID != q.TenantID || d.VisibleFrom() > q.Level || !d.Published && q.From == waypost.FromFrontend {
			continue
		}
		if r, holds := rankOf(newText(d.Name), newText(d.Content), q.Keyword); holds {
			found = append(found, d)
			rank[d.Key] = r
		}
	}
	slices.SortStableFunc(found, func(x, y searchsvc.Document) int {
		return cmp.Or(cmp.Compare(rank[y.Key], rank[x.Key]), cmp.Compare(y.PublishedAt.UnixMilli(), x.PublishedAt.UnixMilli()))
	})
	return found
}

// rankOf tells whether an article holds every part of a keyword, and how far in front it
// stands: 2 for the accents of the keyword, and 1 for all of it in its name.
func rankOf(name, content text, k searchsvc.Keyword) (rank int, holds bool) {
	last := len(k.Parts) - 1
	for last >= 0 && k.Parts[last].Kind != searchsvc.PartWord {
		last--
	}
	named, accented := true, true
	for i, p := range k.Parts {
		if !name.holds(p, i == last) && !content.holds(p, i == last) {
			return 0, false
		}
		named = named && name.holds(p, i == last)
	}
	for _, word := range k.Accented() {
		accented = accented && (slices.Contains(name.written, word) || slices.Contains(content.written, word))
	}
	if accented && len(k.Accented()) > 0 {
		rank += 2
	}
	if named {
		rank++
	}
	return rank, len(k.Parts) > 0
}

// text is what a search looks at of a text.
type text struct {
	runs    [][]string // of characters
	words   []string   // without their accents
	written []string   // the same words with them
	symbols []string   // and what they are made of
}

// texts are those that were read, because one is asked for with many keywords.
var texts sync.Map

func newText(s string) text {
	if known, ok := texts.Load(s); ok {
		return known.(text)
	}
	var t text
	end := -1 // of the run before
	for token := range searchsvc.Tokens(searchsvc.Fold(s)) {
		switch token.Kind {
		case searchsvc.PartRun:
			if token.At != end {
				t.runs = append(t.runs, nil)
			}
			t.runs[len(t.runs)-1] = append(t.runs[len(t.runs)-1], token.Text)
			end = token.At + len(token.Text)
		case searchsvc.PartWord:
			t.words, t.written = append(t.words, searchsvc.Bare(token.Text)), append(t.written, token.Text)
		case searchsvc.PartSymbol:
			t.symbols = append(append(t.symbols, token.Text), searchsvc.Components(token.Text)...)
		}
	}
	texts.Store(s, t)
	return t
}

func (t text) holds(p searchsvc.Part, prefix bool) bool {
	part := p.Sought()
	switch p.Kind {
	case searchsvc.PartRun:
		want := searchsvc.Characters(part)
		return slices.ContainsFunc(t.runs, func(run []string) bool {
			for i := range run {
				if len(run)-i >= len(want) && slices.Equal(run[i:i+len(want)], want) {
					return true
				}
			}
			return false
		})
	case searchsvc.PartSymbol:
		return slices.Contains(t.symbols, part)
	}
	return slices.ContainsFunc(t.words, func(word string) bool { return word == part || prefix && strings.HasPrefix(word, part) })
}

// fold is a text as it is compared, without accents.
func fold(s string) string { return searchsvc.Bare(searchsvc.Fold(s)) }
