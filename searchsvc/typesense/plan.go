package typesense

import (
	"strings"
	"unicode/utf8"

	"waypost/searchsvc"
)

// plan is a keyword in Typesense's terms. Tokens hold letters, digits, `+` and `#`, and kept
// characters of runs only: nothing that means something in a query, in a filter or in a value in
// backticks.
type plan struct {
	q       string
	singles []string // characters of runs that stand alone: a filter finds them
	inName  []string // conditions that hold together if the name matches
	accents []string // conditions that hold together if the accents of the keyword are there
	prefix  bool     // the last token of q is a beginning
	typos   bool     // there are words in which typing errors are looked for, and no codes
}

// minPhrase is the length of a run, in characters, that is more than one pair.
const minPhrase = 3

// newPlan makes a query of a keyword. The longest run of Chinese characters is a phrase, and typos are
// allowed only if no word of the keyword is a code.
func newPlan(k searchsvc.Keyword) plan {
	p := plan{prefix: k.LastWord() >= 0}
	codes := false
	phrase := longestRun(k)
	var pairsOfRuns, symbols, words []string
	for i, part := range k.Parts {
		switch part.Kind {
		case searchsvc.PartWord:
			bare := part.Sought()
			codes, p.typos = codes || isCode(bare), p.typos || isCorrected(bare)
			if i != k.LastWord() {
				words = append(words, whole(bare))
				p.inName = append(p.inName, "name:`"+whole(bare)+"`")
				continue
			}
			words = append(words, beginning(bare))
			p.inName = append(p.inName, "beginnings:`"+nameBeginning(bare, utf8.RuneCountInString(bare))+"`")
		case searchsvc.PartSymbol:
			symbols = append(symbols, exact(part.Text))
			p.inName = append(p.inName, "name:`"+exact(part.Text)+"`")
		case searchsvc.PartRun:
			pairs := searchsvc.Pairs(part.Text)
			for i, pair := range pairs {
				pairs[i] = exact(pair)
			}
			switch tokens := strings.Join(pairs, " "); {
			case len(pairs) == 0:
				p.singles = append(p.singles, exact(part.Text))
				p.inName = append(p.inName, "name:`"+exact(part.Text)+"`")
			case i == phrase:
				p.q = `"` + tokens + `"`
				p.inName = append(p.inName, "name:`"+tokens+"`")
			default:
				pairsOfRuns = append(pairsOfRuns, tokens)
				p.inName = append(p.inName, "name:`"+tokens+"`")
			}
		}
	}
	for _, word := range k.Accented() {
		p.accents = append(p.accents, "(name:`"+exact(word)+"` || content:`"+exact(word)+"`)")
	}
	p.typos = p.typos && !codes
	// Words are last, because the last token is the one that is a prefix.
	tokens := append(append(pairsOfRuns, symbols...), words...)
	p.q = strings.TrimSpace(p.q + " " + strings.Join(tokens, " "))
	if p.q == "" {
		p.q = "*"
	}
	return p
}

// order says which hits come first: those with the accents of the keyword, and of both those
// that hold all of it in their name, then the newest. The engine's own score cannot say that.
func (p plan) order() string {
	named := strings.Join(p.inName, " && ")
	terms := "(" + named + "):1"
	if len(p.accents) > 0 {
		accents := strings.Join(p.accents, " && ")
		terms = "(" + accents + " && " + named + "):3, (" + accents + "):2, " + terms
	}
	return "_eval([" + terms + "]):desc,published_at:desc"
}

// isCode tells whether a word has letters and digits, as article numbers have: another one is
// another thing, and no typing error. Typesense itself leaves words of digits alone.
func isCode(word string) bool {
	return strings.ContainsAny(word, "0123456789") && strings.Trim(word, "0123456789") != ""
}

// isCorrected tells whether typing errors are looked for in a word.
func isCorrected(word string) bool {
	return len(word) >= minLength1Typo && len(word) <= maxToken && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == ""
}

// longestRun is the index of the longest run of three characters or more, -1 if there is none.
// It becomes the phrase: only one phrase in a query is reliable.
func longestRun(k searchsvc.Keyword) int {
	longest, length := -1, minPhrase-1
	for i, part := range k.Parts {
		if part.Kind != searchsvc.PartRun {
			continue
		}
		if n := len(searchsvc.Characters(part.Text)); n > length {
			longest, length = i, n
		}
	}
	return longest
}
