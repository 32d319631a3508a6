package waypost

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/nyaruka/phonenumbers"
)

// listSeparators stand between several phone numbers, and in none. A comma and a slash
// do so too, but can also stand in one.
const listSeparators = ";、；，\r\n"

// SplitPhones splits a text, such as a cell of a spreadsheet, into the phone numbers
// that it holds, as they are written; region is as for Validate. What is one number as
// a whole, such as 0711/123456 in Germany, is split at its slash only if both parts are
// numbers too. What is no number remains as it is.
func SplitPhones(text, region string) []string {
	if !strings.ContainsAny(text, listSeparators+",/") && cleanPhone(text) != "" { // most are one
		return []string{text}
	}
	var numbers []string
	for _, piece := range phoneParts(text, listSeparators) {
		parts := phoneParts(piece, ",/")
		isFaulty := func(part string) bool { return !isPhone(part, region) }
		if len(parts) > 1 && slices.ContainsFunc(parts, isFaulty) && isPhone(piece, region) {
			parts = []string{piece}
		}
		numbers = append(numbers, parts...)
	}
	return numbers
}

// phoneParts splits a text at separators and leaves out parts that hold nothing.
func phoneParts(text, separators string) []string {
	parts := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(separators, r) })
	return slices.DeleteFunc(parts, func(part string) bool { return cleanPhone(part) == "" })
}

func isPhone(text, region string) bool {
	_, ok := e164(cleanPhone(text), region)
	return ok
}

// e164 is the number that a cleaned text says. An extension is no part of it, and a
// letter stands for a digit on some keypads only: neither may be lost silently.
func e164(raw, region string) (number string, ok bool) {
	parsed, err := phonenumbers.Parse(raw, region)
	if err != nil || parsed.GetExtension() != "" || strings.Contains(raw, ";") || hasLetters(raw) || !phonenumbers.IsValidNumber(parsed) {
		return "", false
	}
	return phonenumbers.Format(parsed, phonenumbers.E164), true
}

// minPhoneDigits is how many digits the library looks at.
const minPhoneDigits = 3

// extensionSigns stand before extensions that the library does not know.
var extensionSigns = []string{"转", "轉", "分机", "分機", "内线", "內線", "#"}

// phoneFault says why a text is no phone number, without repeating any of it.
func phoneFault(raw, region string) string {
	parsed, err := phonenumbers.Parse(raw, region)
	within := func(sign string) bool { return strings.Contains(raw, sign) }
	parts := phoneParts(raw, listSeparators+",/")
	digits := 0
	for _, r := range raw {
		if unicode.IsDigit(r) {
			digits++
		}
	}
	switch {
	case raw == "":
		return "is blank"
	case digits == 0:
		return "is no phone number: it has no digits"
	case len(parts) > 1 && (strings.ContainsAny(raw, listSeparators) && !within(";ext=") || slices.ContainsFunc(parts[1:], func(part string) bool { return isPhone(part, region) })):
		return "holds several numbers; make each an element of its own"
	case err == nil && parsed.GetExtension() != "" || slices.ContainsFunc(extensionSigns, within):
		return "has an extension; leave it out, as two numbers that differ in it alone are one phone"
	case isScientific(raw):
		return "was shortened by a spreadsheet, as 1.38E+10 is; make its column text there"
	case hasLetters(raw):
		return "holds letters; write its digits alone"
	case digits < minPhoneDigits:
		return "has too few digits"
	}
	fault := digitFault(parsed, err)
	if err == nil && !strings.ContainsAny(raw, "+＋") {
		fault += "; write a number from abroad with + and its country code"
	}
	return fault
}

// digitFault says what is wrong with the digits of a number, which the library could
// read or not.
func digitFault(parsed *phonenumbers.PhoneNumber, err error) string {
	switch {
	case errors.Is(err, phonenumbers.ErrInvalidCountryCode):
		return "begins with a country code that there is not"
	case errors.Is(err, phonenumbers.ErrTooShortAfterIDD), errors.Is(err, phonenumbers.ErrTooShortNSN):
		return "has too few digits"
	case errors.Is(err, phonenumbers.ErrNumTooLong):
		return "has too many digits"
	case err != nil:
		return "holds signs that no phone number has; write its digits alone"
	}
	code := int(parsed.GetCountryCode())
	example := phonenumbers.GetExampleNumberForType(phonenumbers.GetRegionCodeForCountryCode(code), phonenumbers.MOBILE)
	if example == nil {
		return fmt.Sprintf("is no number of +%d", code)
	}
	like := phonenumbers.GetNationalSignificantNumber(example)
	switch n := len(phonenumbers.GetNationalSignificantNumber(parsed)); {
	case n < len(like):
		return fmt.Sprintf("has too few digits for a number of +%d, such as %s", code, like)
	case n > len(like):
		return fmt.Sprintf("has too many digits for a number of +%d, such as %s", code, like)
	}
	return fmt.Sprintf("begins like no number of +%d; one is %s", code, like)
}

// hasLetters tells whether a letter follows the first digit: what stands before it, such
// as "Tel.", is passed over.
func hasLetters(raw string) bool {
	first := strings.IndexFunc(raw, unicode.IsDigit)
	return first >= 0 && strings.ContainsFunc(raw[first:], unicode.IsLetter)
}

// isScientific tells whether raw is a number as a spreadsheet writes a long one.
func isScientific(raw string) bool {
	mantissa, exponent, found := strings.Cut(strings.ToUpper(raw), "E+")
	return found && strings.Trim(mantissa, "0123456789.,") == "" && strings.Trim(exponent, "0123456789") == ""
}
