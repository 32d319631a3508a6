package typesense

import (
	"strings"
	"unicode/utf8"

	"waypost/searchsvc"
)

// plan is a keyword in Typesense's terms. Parts hold letters, digits, marks, `+`,
// `#` and symbols outside ASCII only: nothing that means something in a query,
// in a filter or in a value in backticks.
type plan struct {
	q         string
	singles   []string // single CJK characters: no token of q finds them, a filter does
	inName    []string // conditions that hold together if the name matches
	splitJoin string
}

// minPhrase is the length of a CJK run, in characters, that is more than one
// pair.
const minPhrase = 3

func newPlan(k searchsvc.Keyword) plan {
	p := plan{splitJoin: "fallback"}
	phrase := longestRun(k)
	var pairsOfRuns, symbols, words []string
	for i, part := range k.Parts {
		switch part.Kind {
		case searchsvc.PartWord:
			words = append(words, part.Text)
			p.inName = append(p.inName, wordInName(part, i == k.LastWord()))
		case searchsvc.PartSymbol:
			symbols = append(symbols, part.Text)
			p.inName = append(p.inName, "name:`"+part.Text+"`")
		case searchsvc.PartCJK:
			p.splitJoin = "off"
			switch pairs := strings.Join(searchsvc.Pairs(part.Text), " "); {
			case pairs == "":
				p.singles = append(p.singles, part.Text)
				p.inName = append(p.inName, "name:"+part.Text)
			case i == phrase:
				p.q = `"` + pairs + `"`
				p.inName = append(p.inName, "name:`"+pairs+"`")
			default:
				pairsOfRuns = append(pairsOfRuns, pairs)
				p.inName = append(p.inName, "name:`"+pairs+"`")
			}
		}
	}
	// Words are last, because the last token is the one that is a prefix.
	tokens := append(append(pairsOfRuns, symbols...), words...)
	p.q = strings.TrimSpace(p.q + " " + strings.Join(tokens, " "))
	if p.q == "" {
		p.q = "*"
	}
	return p
}

// wordInName is the condition that a word is in the name, or at the beginning of one of
// its words. Typesense looks at four of the words that begin so, so that beginnings are
// words of a field of their own. A long one is found there with the accents as they were
// typed, and by Typesense's own look with others too.
func wordInName(word searchsvc.Part, beginning bool) string {
	inName := "name:`" + word.Text + "`"
	switch {
	case !beginning:
		return inName
	case utf8.RuneCountInString(word.Text) <= maxBeginning:
		return "beginnings:`" + word.Text + "`"
	}
	var indexed string
	for indexed = range beginningsOf(word.Folded()) { // the last is the whole word
	}
	return "(beginnings:`" + indexed + "` || " + inName + " || name:" + word.Text + "*)"
}

// longestRun is the index of the longest run of three CJK characters or more, -1
// if there is none. It becomes the phrase: only one phrase in a query is
// reliable.
func longestRun(k searchsvc.Keyword) int {
	longest, length := -1, minPhrase-1
	for i, part := range k.Parts {
		if n := utf8.RuneCountInString(part.Text); part.Kind == searchsvc.PartCJK && n > length {
			longest, length = i, n
		}
	}
	return longest
}
