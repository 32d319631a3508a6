package searchsvc

import (
	"strings"
	"sync"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Words are compared without their accents, so that a keyword without them finds them.

// bareLetters are letters with a stroke, and ligatures, which Unicode does not take apart.
var bareLetters = map[rune]string{'đ': "d", 'ð': "d", 'ħ': "h", 'ł': "l", 'ø': "o", 'ŧ': "t", 'æ': "ae", 'œ': "oe", 'þ': "th"}

// endOfAccents is behind the letters that have accents: Latin, Greek, Cyrillic, Arabic and
// Hebrew ones. What is beyond is compared as it is.
const endOfAccents = 0x2000

// bareTable has the letters of which something is taken away.
var bareTable = sync.OnceValue(func() *[endOfAccents]*string {
	var table [endOfAccents]*string
	for r := rune(0x80); r < endOfAccents; r++ {
		bare, known := bareLetters[r]
		if !known {
			bare = norm.NFC.String(strings.Map(func(r rune) rune {
				if isAccent(r) {
					return -1
				}
				return r
			}, norm.NFD.String(string(r))))
			for letter, other := range bareLetters { // as ǿ
				bare = strings.ReplaceAll(bare, string(letter), other)
			}
		}
		if bare != string(r) {
			table[r] = &bare
		}
	}
	return &table
})

// isAccent tells whether a mark only changes the letter before it: of the marks of single
// scripts, such as vowel signs, that is true of Hebrew points.
func isAccent(r rune) bool {
	return unicode.Is(unicode.Mn, r) && (unicode.Is(unicode.Inherited, r) || unicode.Is(unicode.Hebrew, r))
}

// bareRune is a letter or mark of a word without accents; known is false if that is itself.
func bareRune(r rune) (bare string, known bool) {
	if r < 0x80 || r >= endOfAccents {
		return "", false
	}
	if found := bareTable()[r]; found != nil {
		return *found, true
	}
	return "", false
}

// Bare is a word in the plain form without its accents.
func Bare(word string) string {
	for i, r := range word {
		if _, accented := bareRune(r); !accented {
			continue
		}
		var b strings.Builder
		b.WriteString(word[:i])
		for _, r := range word[i:] {
			if bare, accented := bareRune(r); accented {
				b.WriteString(bare)
			} else {
				b.WriteRune(r)
			}
		}
		return b.String()
	}
	return word
}
