package searchsvc

import (
	"strings"
	"unicode"
)

// PartKind says how a part of a keyword is looked for.
type PartKind int

// The kinds of parts.
const (
	PartCJK    PartKind = iota // a run of CJK characters: anywhere in the text
	PartWord                   // a word of other scripts: a whole word; the last one is a prefix too
	PartSymbol                 // one symbol outside ASCII, such as an emoji: as a whole
)

// Part is one thing that an article must hold, in its name or in its content.
type Part struct {
	Kind PartKind
	Text string
}

// Folded is the part as texts are compared: what Fold makes of it.
func (p Part) Folded() string { return strings.Map(lowerASCII, p.Text) }

// maxParts bounds what one search asks of an engine, which refuses filters of
// more than a hundred terms. What follows in a keyword is not looked for.
const maxParts = 32

// Keyword is a search keyword, split into its parts. An article matches if it
// holds every one.
type Keyword struct {
	Parts []Part
}

// ParseKeyword splits a keyword in its plain form: runs of CJK, words (letters, digits
// and marks, and the `+` and `#` behind them) and symbols outside ASCII are parts;
// everything else only separates, so that quotes, a minus sign or an engine's filter
// syntax mean nothing. Equal parts count once, and only the first 32 of them count.
func ParseKeyword(s string) Keyword {
	var parts []Part
	end := -1 // of the run of CJK before
	for token := range Tokens(Normalize(s)) {
		if token.Kind == PartCJK && token.At == end {
			parts[len(parts)-1].Text += token.Text
		} else {
			parts = append(parts, Part{token.Kind, token.Text})
		}
		if token.Kind == PartCJK {
			end = token.At + len(token.Text)
		}
	}
	return Keyword{distinct(parts)}
}

// distinct keeps the first of equal parts, the last word as well, and of all that the
// first 32.
func distinct(parts []Part) []Part {
	var kept []Part
	seen := map[string]bool{}
	last := Keyword{parts}.LastWord()
	for i, p := range parts {
		key := p.Folded()
		if !seen[key] || i == last {
			kept = append(kept, p)
		}
		seen[key] = true
	}
	return kept[:min(len(kept), maxParts)]
}

// LastWord is the index of the last word, which is also looked for as the
// beginning of words; -1 if there is no word.
func (k Keyword) LastWord() int {
	for i := len(k.Parts) - 1; i >= 0; i-- {
		if k.Parts[i].Kind == PartWord {
			return i
		}
	}
	return -1
}

// IsCJK tells whether r belongs to a script that is written without blanks
// between words: Han, Hiragana, Katakana, Hangul, Bopomofo, and the marks ー, 〇
// and 々 among them.
func IsCJK(r rune) bool {
	switch { // most text is settled here
	case r < 0x1100:
		return false
	case isIdeograph(r):
		return true
	}
	return r == 'ー' || r == '〇' || r == '々' ||
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo)
}

// Pairs are the pairs of neighbours that a run of CJK characters consists of, none of a
// single character.
func Pairs(run string) []string {
	var pairs []string
	runes := []rune(run)
	for i := 1; i < len(runes); i++ {
		pairs = append(pairs, string(runes[i-1:i+1]))
	}
	return pairs
}

// isWord tells whether r is part of a word outside CJK, but for the signs at a word's end.
func isWord(r rune) bool {
	if r <= unicode.MaxASCII {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	return !isIdeograph(r) && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)) && !IsCJK(r)
}

// isIdeograph is true for most Chinese characters, and for nothing else.
func isIdeograph(r rune) bool { return r >= 0x4E00 && r <= 0x9FFF }
