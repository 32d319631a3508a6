package typesense

import (
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"

	"waypost"
	"waypost/searchsvc"
)

// Typesense cuts Chinese by a dictionary, and then 学生 does not find 大学生. So
// text is indexed as overlapping pairs of CJK characters with blanks between
// them, which Typesense takes for words: 搜索引擎 is written 搜索 索引 引擎 擎. It is
// indexed in the plain form in which it is compared, but for the case of ASCII letters,
// which Typesense folds. Where decode does not give the original back, a document
// carries that as well.
//
// Private use characters carry what the pairs cannot; text must not hold any.
const (
	markStart  = '\uE000' // Typesense's highlight tags
	markEnd    = '\uE001'
	blank      = '\uE002' // a blank of the text beside a character that stands alone
	textStart  = '\uE004'
	textEnd    = '\uE005'
	firstTaken = '\uE000'
	lastTaken  = '\uE00F'
)

// encodeContent writes a content as it is indexed.
func encodeContent(s string) string {
	return string(textStart) + " " + encode(s) + " " + string(textEnd)
}

// encodeName writes a name as it is indexed. Behind its end follows each of its
// CJK characters as a word, so that single characters are found in names.
func encodeName(s string) string {
	return strings.TrimRight(encodeContent(s)+" "+characters(s), " ")
}

// characters are the CJK characters of a text, each once, with blanks between them.
func characters(s string) string {
	var b strings.Builder
	seen := map[rune]bool{}
	for _, r := range searchsvc.Normalize(s) {
		if searchsvc.IsCJK(r) && !seen[r] {
			if seen[r] = true; b.Len() > 0 {
				b.WriteByte(' ')
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}

// maxBeginning is the longest beginning of a word that is written out, in characters:
// beyond that few words begin alike.
const maxBeginning = 24

// beginnings are the beginnings of the words of a text, each once, with blanks between
// them.
func beginnings(s string) string {
	var b strings.Builder
	seen := map[string]bool{}
	for token := range searchsvc.Tokens(searchsvc.Fold(s)) {
		if token.Kind != searchsvc.PartWord {
			continue
		}
		for beginning := range beginningsOf(token.Text) {
			if !seen[beginning] {
				if seen[beginning] = true; b.Len() > 0 {
					b.WriteByte(' ')
				}
				b.WriteString(beginning)
			}
		}
	}
	return b.String()
}

// beginningsOf are the beginnings of a word, the shortest first, as they are indexed. The
// longest stand as 32 hexadecimal digits, of which no shorter one is made: a Thai title
// is one word, and written out they would take the square of its length. They are as
// accented as the text, where Typesense takes é for e in the shorter ones.
func beginningsOf(word string) iter.Seq[string] {
	return func(yield func(string) bool) {
		n, sum := 0, sha256.New()
		for at, r := range word {
			end := at + utf8.RuneLen(r)
			sum.Write([]byte(word[at:end]))
			beginning := word[:end]
			if n++; n > maxBeginning {
				beginning = hex.EncodeToString(sum.Sum(nil)[:16])
			}
			if !yield(beginning) {
				return
			}
		}
	}
}

func encode(s string) string {
	runes := []rune(clean(searchsvc.Normalize(s)))
	keepBlanks(runes)
	var b strings.Builder
	b.Grow(3 * len(s))
	before := inWord
	for i := 0; i < len(runes); {
		now, end := kindOf(runes[i]), i+1
		if i > 0 && (before != inWord || now != inWord) {
			b.WriteByte(' ')
		}
		if now == single {
			end = searchsvc.SymbolEnd(runes, i)
		}
		text := string(runes[i:end])
		b.WriteString(text)
		if now == paired && end < len(runes) && kindOf(runes[end]) == paired {
			b.WriteRune(runes[end])
		}
		for _, symbol := range searchsvc.Components(text) {
			b.WriteString(" " + symbol)
		}
		before, i = now, end
	}
	return b.String()
}

// clean replaces what cannot be indexed or means something to decode.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == 0 || r >= firstTaken && r <= lastTaken {
			return utf8.RuneError
		}
		return r
	}, s)
}

// keepBlanks writes runs of blanks beside characters that stand alone in another
// way, because decode drops blanks there.
func keepBlanks(runes []rune) {
	for i := 0; i < len(runes); i++ {
		if runes[i] != ' ' {
			continue
		}
		end := i
		for end < len(runes) && runes[end] == ' ' {
			end++
		}
		if i > 0 && kindOf(runes[i-1]) != inWord || end < len(runes) && kindOf(runes[end]) != inWord {
			for j := i; j < end; j++ {
				runes[j] = blank
			}
		}
		i = end
	}
}

// kind says how a character is written.
type kind byte

const (
	inWord kind = iota // beside others of its kind, and blanks
	single             // with blanks around it
	paired             // with blanks around it and its follower appended: CJK
)

func kindOf(r rune) kind {
	switch {
	case r <= unicode.MaxASCII:
		return inWord
	case searchsvc.IsCJK(r):
		return paired
	case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
		return inWord
	}
	return single
}

// decode gives back the text of an indexed name or content.
func decode(s string) string {
	s, _, _ = strings.Cut(s, string(textEnd))
	var b strings.Builder
	b.Grow(len(s))
	// before is the kind of the last character that is no blank, blanks how many came
	// after it. At the beginning there is none, and blanks are dropped.
	before, blanks := single, 0
	for _, r := range s {
		switch r {
		case markStart, markEnd, textStart:
			continue
		case ' ':
			blanks++
			continue
		}
		now := kindOf(r)
		if now == inWord && before == inWord {
			for range blanks {
				b.WriteByte(' ')
			}
		}
		switch {
		case r == blank:
			b.WriteByte(' ')
		case now == paired && before == paired && blanks == 0:
			// the second of a pair
		default:
			b.WriteRune(r)
		}
		before, blanks = now, 0
	}
	return b.String()
}

// maxTenantKey is the longest tenant id, in bytes, whose key is readable:
// Typesense cuts tokens at 100 bytes.
const maxTenantKey = 48

// stageLetters keep the tenants of the stages apart. None of them is a
// hexadecimal digit, so no two pairs of stage and tenant share a key.
var stageLetters = map[waypost.Stage]string{waypost.StageRelease: "", waypost.StagePreRelease: "p", waypost.StageTest: "t"}

// tenantKey is what articles are filtered by. It is hexadecimal because
// Typesense's filters ignore case and punctuation, and because a tenant id must
// not be able to end a filter's value.
func tenantKey(stage waypost.Stage, tenantID string) string {
	if len(tenantID) > maxTenantKey {
		sum := sha256.Sum256([]byte(tenantID))
		return stageLetters[stage] + "h" + hex.EncodeToString(sum[:])
	}
	return stageLetters[stage] + hex.EncodeToString([]byte(tenantID))
}
