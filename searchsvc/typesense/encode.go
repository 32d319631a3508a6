package typesense

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"iter"
	"strings"
	"unicode/utf8"

	"waypost"
	"waypost/searchsvc"
)

// Typesense writes many characters in ASCII (€ as eur), drops others (→), cuts Chinese by a
// dictionary and tokens at 100 bytes, and corrects typing errors. So the fields that it searches
// hold tokens that are made here, by the one rule that both engines have (searchsvc.Tokens), with
// blanks between them; the texts themselves stand beside them and are not indexed. A token is
//
//   - a word without its accents: ASCII letters and digits as they are, the signs behind them as
//     +p and +s, and from the first other letter on # and the bytes in hexadecimal digits. So a
//     beginning of a word is a beginning of its token;
//   - a word with its accents, a symbol, a character of a run or two neighbours of one: # on both
//     sides, so that nothing longer begins with it. Han, kana and Hangul, which Typesense
//     leaves alone, stand as they are.
//
// Typesense corrects no token with # or + in it.
//
// The longest tokens stand as hashes. A word that is too long for a token is a beginning of
// itself with + behind it, a hash of the whole with +, and a hash of each longer beginning.

// maxToken is the longest token that is written out, in bytes.
const maxToken = 90

// maxBeginning is the longest beginning of a word of a name that is written out, in
// characters: beyond that few words begin alike, and together the beginnings take the square of
// a word's length.
const maxBeginning = 24

// hashes are written in letters and digits, without padding.
var hashes = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// hash is a token for a text of any length.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "#" + hashes.EncodeToString(sum[:10])
}

// exact is the token for a text that is found as a whole only.
func exact(text string) string {
	if isKept(text) {
		return text
	}
	if token := "#" + hex.EncodeToString([]byte(text)) + "#"; len(token) <= maxToken {
		return token
	}
	return hash(text) + "#"
}

// isKept tells whether Typesense leaves all characters of a text as they are: those of which
// most runs consist.
func isKept(text string) bool {
	for _, r := range text {
		kept := r >= 0x4E00 && r <= 0x9FFF || r >= 0x3041 && r <= 0x3096 || r >= 0x30A1 && r <= 0x30FA || r == 'ー' ||
			r >= 0xAC00 && r <= 0xD7A3 || r >= 0x3400 && r < 0x4DC0 || r >= 0x20000 && r < 0x2F800
		if !kept {
			return false
		}
	}
	return true
}

// signs are those behind a word.
var signs = strings.NewReplacer("+", "+p", "#", "+s")

// written is the token for a word, or for a beginning of one; fits is false if it is too long.
func written(bare string) (token string, fits bool) {
	at := strings.IndexFunc(bare, func(r rune) bool { return r > 'z' || r == '+' || r == '#' })
	switch {
	case at < 0:
		token = bare
	case bare[at] < utf8.RuneSelf:
		token = signs.Replace(bare)
	default:
		if at+1+2*(len(bare)-at) > maxToken {
			return "", false
		}
		token = bare[:at] + "#" + hex.EncodeToString([]byte(bare[at:]))
	}
	return token, len(token) <= maxToken
}

// whole is the token by which a word is found as a whole.
func whole(bare string) string {
	if token, fits := written(bare); fits {
		return token
	}
	return hash(bare) + "+"
}

// beginning is the token by which a word is found that begins so: with more behind it where
// the word is longer.
func beginning(bare string) string {
	if token, fits := written(bare); fits {
		return token
	}
	return hash(bare)
}

// maxHashed is the longest beginning of a word that a keyword can have, in bytes.
const maxHashed = searchsvc.MaxKeywords

// wordTokens are the tokens of a word.
func wordTokens(bare string) iter.Seq[string] {
	return func(yield func(string) bool) {
		if token, fits := written(bare); fits {
			yield(token)
			return
		}
		if !yield(hash(bare) + "+") {
			return
		}
		last := ""
		for at, r := range bare {
			end := at + utf8.RuneLen(r)
			token, fits := written(bare[:end])
			switch {
			case fits:
				last = token
				continue
			case last != "":
				if !yield(last + "+") {
					return
				}
				last = ""
			}
			if end > maxHashed || !yield(hash(bare[:end])) {
				return
			}
		}
	}
}

// tokenText is the text of a field: tokens with blanks between them.
type tokenText struct{ strings.Builder }

func (t *tokenText) add(token string) {
	if t.Len() > 0 {
		t.WriteByte(' ')
	}
	t.WriteString(token)
}

// encode writes a text as it is indexed, and adds the characters of its runs to seen. Of a run
// 搜索引擎 the pairs are written, and the last character: 搜索 索引 引擎 擎, so that no phrase
// goes on in the next run.
func encode(s string, seen map[string]bool) string {
	var out tokenText
	out.Grow(3 * len(s))
	text := searchsvc.Fold(s)
	var before searchsvc.Token // the last character of a run, until it is known what follows
	for token := range searchsvc.Tokens(text) {
		if before.Text != "" {
			if token.Kind == searchsvc.PartRun && token.At == before.At+len(before.Text) {
				out.add(exact(text[before.At : token.At+len(token.Text)]))
			} else {
				out.add(exact(before.Text))
			}
			before.Text = ""
		}
		switch token.Kind {
		case searchsvc.PartRun:
			before, seen[token.Text] = token, true
		case searchsvc.PartSymbol:
			out.add(exact(token.Text))
			for _, symbol := range searchsvc.Components(token.Text) {
				out.add(exact(symbol))
			}
		case searchsvc.PartWord:
			bare := searchsvc.Bare(token.Text)
			for token := range wordTokens(bare) {
				out.add(token)
			}
			if bare != token.Text {
				out.add(exact(token.Text))
			}
		}
	}
	if before.Text != "" {
		out.add(exact(before.Text))
	}
	return out.String()
}

// encodeName is encode for a name. Each character of its runs follows once more, as a word, so
// that single characters are found in names.
func encodeName(s string, seen map[string]bool) string {
	here := map[string]bool{}
	out := tokenText{}
	out.WriteString(encode(s, here))
	for _, character := range sortedKeys(here) {
		out.add(exact(character))
		seen[character] = true
	}
	return out.String()
}

// beginnings are the beginnings of the words of a text, each once.
func beginnings(s string) string {
	var out tokenText
	seen := map[string]bool{}
	for token := range searchsvc.Tokens(searchsvc.Fold(s)) {
		if token.Kind != searchsvc.PartWord {
			continue
		}
		bare := searchsvc.Bare(token.Text)
		n := 0
		for at, r := range bare {
			n++
			end := at + utf8.RuneLen(r)
			if end > maxHashed {
				break
			}
			if beginning := nameBeginning(bare[:end], n); !seen[beginning] {
				seen[beginning] = true
				out.add(beginning)
			}
		}
	}
	return out.String()
}

// nameBeginning is the token for a beginning of a word of a name, of n characters.
func nameBeginning(bare string, n int) string {
	if n > maxBeginning {
		return hash(bare)
	}
	return beginning(bare)
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
