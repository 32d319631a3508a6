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
	PartSymbol                 // one symbol outside ASCII, such as an emoji: anywhere
)

// Part is one thing that an article must hold, in its name or in its content.
type Part struct {
	Kind PartKind
	Text string
}

// maxParts bounds what one search asks of an engine, which refuses filters of
// more than a hundred terms. What follows in a keyword is not looked for.
const maxParts = 32

// Keyword is a search keyword, split into its parts. An article matches if it
// holds every one.
type Keyword struct {
	Parts []Part
}

// ParseKeyword splits a keyword: full-width forms become ASCII first; runs of
// CJK, words (letters, digits, marks, `+`, `#`) and single symbols outside ASCII
// are parts; everything else only separates, so that quotes, a minus sign or an
// engine's filter syntax mean nothing. Only the first 32 parts count.
func ParseKeyword(s string) Keyword {
	var k Keyword
	runes := []rune(s)
	for i, r := range runes {
		runes[i] = narrow(r)
	}
	for i := 0; i < len(runes) && len(k.Parts) < maxParts; {
		end := i + 1
		switch r := runes[i]; {
		case IsCJK(r):
			end = runEnd(runes, i, IsCJK)
			k.Parts = append(k.Parts, Part{PartCJK, string(runes[i:end])})
		case isWord(r):
			end = runEnd(runes, i, isWord)
			// Marks alone, such as what follows an emoji, are no word.
			if word := string(runes[i:end]); strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsMark(r) }) {
				k.Parts = append(k.Parts, Part{PartWord, word})
			}
		case r > unicode.MaxASCII && unicode.IsSymbol(r):
			k.Parts = append(k.Parts, Part{PartSymbol, string(r)})
		}
		i = end
	}
	return k
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

// isWord tells whether r is part of a word that is none of CJK.
func isWord(r rune) bool {
	if r <= unicode.MaxASCII {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '+' || r == '#'
	}
	return !isIdeograph(r) && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)) && !IsCJK(r)
}

// narrow turns full-width forms into ASCII.
func narrow(r rune) rune {
	if r >= '！' && r <= '～' {
		return r - '！' + '!'
	}
	return r
}

// fold maps the characters that mean the same in a search to one of them.
func fold(r rune) rune {
	if isIdeograph(r) {
		return r
	}
	return unicode.ToLower(narrow(r))
}

// isIdeograph tells of most Chinese characters, and of nothing else, what they are.
func isIdeograph(r rune) bool { return r >= 0x4E00 && r <= 0x9FFF }

func foldString(s string) string { return strings.Map(fold, s) }

// Fold writes a text as it is compared: what means the same in a search becomes
// the same.
func Fold(s string) string { return foldString(s) }

// KindOf tells which kind of part of a folded text a character belongs to; ok is
// false if it only separates.
func KindOf(r rune) (kind PartKind, ok bool) {
	switch {
	case IsCJK(r):
		return PartCJK, true
	case isWord(r):
		return PartWord, true
	case r > unicode.MaxASCII && unicode.IsSymbol(r):
		return PartSymbol, true
	}
	return 0, false
}

// runEnd is where the run of runes that begins at i ends.
func runEnd(runes []rune, i int, is func(rune) bool) int {
	for i < len(runes) && is(runes[i]) {
		i++
	}
	return i
}
