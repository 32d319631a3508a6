package searchtest

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

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
		name, content := newText(d.Name), newText(d.Content)
		all, named := len(parts) > 0, true
		for i, p := range parts {
			all = all && (name.holds(p, i == last) || content.holds(p, i == last))
			named = named && name.holds(p, i == last)
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

// text is what a search looks at of a text.
type text struct {
	runs    string // of CJK, with line feeds between them
	words   []string
	symbols []string
}

// texts are those that were read, because one is asked for with many keywords.
var texts sync.Map

func newText(s string) text {
	if known, ok := texts.Load(s); ok {
		return known.(text)
	}
	t := readText(s)
	texts.Store(s, t)
	return t
}

// readText reads a text character by character, as people see them.
func readText(s string) text {
	var t text
	var word, runs strings.Builder
	endWord := func() {
		if word.Len() > 0 {
			t.words = append(t.words, word.String())
			word.Reset()
		}
	}
	s = fold(s)
	for s != "" {
		var cluster string
		cluster, s, _, _ = uniseg.FirstGraphemeClusterInString(s, -1)
		r := []rune(cluster)[0]
		isWord := unicode.In(r, unicode.L, unicode.Nd) && !searchsvc.IsCJK(r)
		isSign := r == '+' || r == '#'
		if !isWord && !(isSign && word.Len() > 0) {
			endWord()
		}
		switch {
		case isWord:
			word.WriteString(cluster)
		case isSign && word.Len() > 0:
			signs := cluster + s[:len(s)-len(strings.TrimLeft(s, "+#"))]
			s = strings.TrimLeft(s, "+#")
			next, _ := utf8.DecodeRuneInString(s)
			if followed := unicode.In(next, unicode.L, unicode.Nd) && !searchsvc.IsCJK(next); !followed || strings.HasPrefix(signs, "++") ||
				signs == "#" && utf8.RuneCountInString(word.String()) == 1 && unicode.IsLetter([]rune(word.String())[0]) {
				word.WriteString(signs)
			}
			endWord()
		case searchsvc.IsCJK(r):
			runs.WriteRune(r)
			continue
		case r > unicode.MaxASCII && unicode.IsSymbol(r):
			t.symbols = append(t.symbols, cluster)
			if r < 0x1F1E6 || r > 0x1F1FF { // no flag
				t.symbols = append(t.symbols, strings.Split(cluster, "\u200D")...)
			}
		}
		runs.WriteByte('\n')
	}
	endWord()
	t.runs = runs.String()
	return t
}

func (t text) holds(p searchsvc.Part, prefix bool) bool {
	part := fold(p.Text)
	switch p.Kind {
	case searchsvc.PartCJK:
		return strings.Contains(t.runs, part)
	case searchsvc.PartSymbol:
		return slices.Contains(t.symbols, part)
	}
	return slices.ContainsFunc(t.words, func(word string) bool { return word == part || prefix && strings.HasPrefix(word, part) })
}

// fold is a text without what is invisible in it, after NFKC and case folding: what
// Unicode calls NFKC_Casefold, but for the joiners of emoji and the i with a dot.
func fold(s string) string {
	s = invisible.ReplaceAllString(strings.ToValidUTF8(s, "\uFFFD"), "")
	s = joiner.ReplaceAllString(s, "$1\uF8FF")
	s = strings.ReplaceAll(s, "\u200D", "")
	s = skinTone.ReplaceAllString(keycap.ReplaceAllString(s, "$1"), "$1")
	s = strings.NewReplacer("#\u20E3", "♯", "*\u20E3", "✱", "™", "\uF8FE", "İ", "i", "ı", "i", "⻓", "长", "⻚", "页", "´", " ").Replace(s)
	s = cases.Fold().String(norm.NFKC.String(s))
	s = strings.NewReplacer("i\u0307", "i", "\u2044", "/", "\uF8FE", "™", "\uF8FF", "\u200D").Replace(norm.NFKC.String(s))
	return s
}

var (
	invisible = regexp.MustCompile(`[\x00-\x08\x0E-\x1F\x7F\x{AD}\x{34F}\x{61C}\x{640}\x{115F}\x{1160}\x{180B}-\x{180F}\x{200B}\x{200C}\x{200E}\x{200F}\x{202A}-\x{202E}\x{2060}-\x{206F}\x{3164}\x{FE00}-\x{FE0F}\x{FEFF}\x{FFA0}\x{E0100}-\x{E01EF}]`)
	joiner    = regexp.MustCompile(`(\p{So}[\x{1F3FB}-\x{1F3FF}]?)\x{200D}`)
	keycap    = regexp.MustCompile(`([0-9])\x{20E3}`)
	skinTone  = regexp.MustCompile(`(\p{So})[\x{1F3FB}-\x{1F3FF}]`)
)
