package waypost

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean takes invisible characters, and blanks at both ends, out of the fields of one
// line: they come along when a value is copied from a phone, a web page or a
// spreadsheet, nobody sees them, and a value with them would be another one than the
// same value without. address, remark and custom fields stay as they are sent. It
// changes neither a text nor a slice that f shares with others.
func (f *LeadFields) clean() {
	f.Name = cleanText(f.Name)
	cleanField(&f.Company, cleanText)
	for _, field := range []**string{
		&f.Birthday, &f.Email, &f.Wechat, &f.QQ, &f.Telephone, &f.CompanyPhone, &f.CompanyEmail, &f.CompanyWebsite, &f.ExternalID, &f.OpenID,
	} {
		cleanField(field, CleanKey)
	}
	for i, raw := range f.MobilePhone {
		if number := cleanPhone(raw); number != raw {
			f.MobilePhone = slices.Clone(f.MobilePhone)
			f.MobilePhone[i] = number
		}
	}
}

func cleanField(field **string, clean func(string) string) {
	if *field == nil {
		return
	}
	if text := clean(**field); text != **field {
		*field = &text
	}
}

// cleanText is what is stored of a name. Joiners and variation selectors stay where
// they change what is seen, as in emoji and in Persian words.
func cleanText(s string) string { return without(s, joins) }

// CleanKey takes all invisible characters, and blanks at both ends, out of s: an address,
// a number or an id. A blank text becomes "".
func CleanKey(s string) string { return without(s, func(rune, string) bool { return false }) }

// cleanPhone is what is stored of a phone number: it also loses the signs that the text
// around it leaves at its ends, such as a comma.
func cleanPhone(s string) string {
	return strings.TrimFunc(CleanKey(s), func(r rune) bool {
		return !strings.ContainsRune("+＋()（）#*", r) && (unicode.IsPunct(r) || unicode.IsSymbol(r) || unicode.IsSpace(r))
	})
}

// without takes invisible characters out of s, but for those that keep wants, and
// blanks at its ends; other blanks than the ideographic one become a plain one. keep
// is asked with the character before, 0 if there is none, and with s from the
// invisible one on.
func without(s string, keep func(before rune, rest string) bool) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return isInvisible(r) || isOddBlank(r) }) {
		return strings.TrimSpace(s)
	}
	var b strings.Builder
	var before rune
	for i, r := range s {
		switch {
		case isOddBlank(r):
			r = ' '
		case isInvisible(r) && !keep(before, s[i:]):
			continue
		}
		b.WriteRune(r)
		before = r
	}
	return strings.TrimSpace(b.String())
}

// isOddBlank tells whether r is a blank that looks like the plain one, such as the
// no-break space.
func isOddBlank(r rune) bool {
	return r >= 0x80 && r != '\u3000' && unicode.Is(unicode.Z, r)
}

// isInvisible tells whether r shows nothing: Unicode's property
// Default_Ignorable_Code_Point, from which it is derived in the same way.
func isInvisible(r rune) bool {
	switch {
	case r < 0xAD || r > 0x3164 && r < 0xFE00: // nearly all text
		return false
	case r >= 0xFFF9 && r <= 0xFFFB, r >= 0x13430 && r <= 0x1345F, unicode.Is(unicode.Prepended_Concatenation_Mark, r):
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

const (
	nonJoiner, joiner   = '\u200C', '\u200D'
	keycap              = '\u20E3'
	blackFlag           = '\U0001F3F4'
	firstTag, cancelTag = '\U000E0020', '\U000E007F'
)

// unjoined are scripts whose letters a joiner leaves as they are.
var unjoined = []*unicode.RangeTable{
	unicode.Latin, unicode.Greek, unicode.Cyrillic, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo,
	unicode.Nd, unicode.P, unicode.Z, unicode.C,
}

// joins tells whether the invisible character at the beginning of rest changes how
// the characters around it look.
func joins(before rune, rest string) bool {
	r, size := utf8.DecodeRuneInString(rest)
	after, _ := utf8.DecodeRuneInString(rest[size:])
	switch {
	case r == joiner || r == nonJoiner:
		return joinable(before) && len(rest) > size && joinable(after) && !isInvisible(after)
	case r >= firstTag && r <= cancelTag: // a flag such as Scotland's
		return before == blackFlag || before >= firstTag && before < cancelTag
	case unicode.Is(unicode.Variation_Selector, r):
		return after == keycap || before >= 0x80 && !isInvisible(before) && !unicode.In(before, unicode.P, unicode.Z)
	}
	return false
}

// joinable tells whether a joiner beside r can change anything. A variation selector
// stands in an emoji.
func joinable(r rune) bool {
	return r >= 0x80 && !unicode.In(r, unjoined...) && (!isInvisible(r) || unicode.Is(unicode.Variation_Selector, r))
}
