package searchsvc

import (
	"unicode"
)

// PartKind says how a part of a keyword is looked for.
type PartKind int

// The kinds of parts.
const (
	PartRun    PartKind = iota // characters of scripts without blanks between words: anywhere in the text
	PartWord                   // a word of other scripts: a whole word; the last one is a prefix too
	PartSymbol                 // one symbol outside ASCII, such as an emoji: as a whole
)

// Part is one thing that an article must hold, in its name or in its content.
type Part struct {
	Kind PartKind
	Text string // in the plain form
}

// Sought is what is looked for: of a word its letters without accents.
func (p Part) Sought() string {
	if p.Kind == PartWord {
		return Bare(p.Text)
	}
	return p.Text
}

// maxParts bounds what one search asks of an engine, which refuses filters of
// more than a hundred terms. What follows in a keyword is not looked for.
const maxParts = 32

// Keyword is a search keyword, split into its parts. An article matches if it
// holds every one.
type Keyword struct {
	Parts []Part
}

// ParseKeyword splits a keyword in its plain form: runs (InRun), words (letters, digits
// and marks, and the `+` and `#` behind them) and symbols outside ASCII are parts;
// everything else only separates, so that quotes, a minus sign or an engine's filter
// syntax mean nothing. Equal parts count once, and only the first 32 of them count.
func ParseKeyword(s string) Keyword {
	var parts []Part
	end := -1 // of the run before
	for token := range Tokens(Fold(s)) {
		if token.Kind == PartRun && token.At == end {
			parts[len(parts)-1].Text += token.Text
		} else {
			parts = append(parts, Part{token.Kind, token.Text})
		}
		if token.Kind == PartRun {
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
		if !seen[p.Text] || i == last {
			kept = append(kept, p)
		}
		seen[p.Text] = true
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

// maxAccented bounds the words whose accents count, so that a condition of an engine stays
// below a hundred operations.
const maxAccented = 8

// Accented are the words with accents. Articles that hold each of them as a whole word with
// these accents come before all others.
func (k Keyword) Accented() []string {
	var words []string
	for _, p := range k.Parts {
		if p.Sought() != p.Text && len(words) < maxAccented {
			words = append(words, p.Text)
		}
	}
	return words
}

// InRun tells whether r belongs to a script that is written without blanks between words:
// Han, Hiragana, Katakana, Hangul, Bopomofo, and the marks ー, 〇 and 々 among them; letters of
// Thai, Lao, Khmer and Burmese.
func InRun(r rune) bool {
	switch { // most text is settled here
	case r < 0x0E00:
		return false
	case isIdeograph(r):
		return true
	}
	return r == 'ー' || r == '〇' || r == '々' || KeepsMarks(r) ||
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo)
}

// KeepsMarks tells whether r is a letter of Thai, Lao, Khmer or Burmese: its vowel signs and
// tone marks make one character with it.
func KeepsMarks(r rune) bool {
	if r < 0x0E00 || r >= 0x1800 && r < 0xA9E0 || r >= 0xAA80 { // most text is settled here
		return false
	}
	return unicode.IsLetter(r) && unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// Characters are those of a run, each with its marks.
func Characters(run string) []string {
	var all []string
	for token := range Tokens(run) {
		all = append(all, token.Text)
	}
	return all
}

// Pairs are the pairs of neighbours that a run consists of, none of a single character.
func Pairs(run string) []string {
	var pairs []string
	characters := Characters(run)
	for i := 1; i < len(characters); i++ {
		pairs = append(pairs, characters[i-1]+characters[i])
	}
	return pairs
}

// isWord tells whether r is part of a word outside runs, but for the signs at a word's end.
func isWord(r rune) bool {
	if r <= unicode.MaxASCII {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	}
	return !isIdeograph(r) && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)) && !InRun(r)
}

// isIdeograph is true for most Chinese characters, and for nothing else.
func isIdeograph(r rune) bool { return r >= 0x4E00 && r <= 0x9FFF }
