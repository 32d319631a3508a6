package waypost

import (
	"fmt"
	"maps"
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a lead's fields, in characters where nothing else is said.
const (
	maxLeadName      = 128
	maxLeadText      = 256 // company
	maxLeadLongText  = 4096
	maxLeadShortText = 64
	maxLeadID        = 128 // externalId, openId
	maxLeadEmail     = 254
	maxLeadWebsite   = 2048
	maxMobilePhones  = 10
	maxCustomFields  = 64
	maxCustomText    = 1024
	maxConsents      = 32
)

// maxExactNumber is the largest integer that every JSON reader keeps exactly.
const maxExactNumber = 1 << 53

// eastmost is where a calendar day begins first.
var eastmost = time.FixedZone("UTC+14", 14*60*60)

// Validate takes invisible characters, and blanks at both ends, out of a lead's fields
// (see clean), checks them (docs/contract.md, "Lead validation") and returns its mobile
// numbers in E.164, without duplicates; phoneRegion, such as "CN", is the country of numbers without one.
// It reports all faulty fields at once, as BadRequest with the target
// businessParam, or, if there is no other fault, a birthday in the future as
// UnprocessableEntity. Custom fields and consents that are null are taken out: like every
// null, they are not set. Objects without members are nil, so that a lead is the same
// after it was stored, or exported and imported.
func (f *LeadFields) Validate(phoneRegion string, now time.Time) (phones []string, err error) {
	f.clean()
	var p Problems
	if f.Name == "" {
		p.Add(DetailNullValue, "name", "is missing or blank")
	} else {
		checkLine(&p, "name", &f.Name, maxLeadName)
	}
	checkText(&p, "address", f.Address, maxLeadLongText)
	checkText(&p, "remark", f.Remark, maxLeadLongText)
	checkLine(&p, "wechat", f.Wechat, maxLeadShortText)
	checkLine(&p, "qq", f.QQ, maxLeadShortText)
	checkLine(&p, "telephone", f.Telephone, maxLeadShortText)
	checkLine(&p, "company", f.Company, maxLeadText)
	checkLine(&p, "companyPhone", f.CompanyPhone, maxLeadShortText)
	checkKey(&p, "externalId", f.ExternalID)
	checkKey(&p, "openId", f.OpenID)
	checkEmail(&p, "email", f.Email)
	checkEmail(&p, "companyEmail", f.CompanyEmail)
	checkWebsite(&p, "companyWebsite", f.CompanyWebsite)
	if f.Gender != nil && (*f.Gender < 0 || *f.Gender > 2) {
		p.Add(DetailOutOfRange, "gender", "must be 0, 1 or 2")
	}
	phones = f.checkPhones(&p, phoneRegion)
	f.checkCustomFields(&p)
	f.checkConsents(&p)
	born, birthday := f.checkBirthday(&p)
	if err := p.Err("businessParam"); err != nil {
		return nil, err
	}
	if birthday && born.After(today(now)) {
		return nil, &Error{
			Code: CodeUnprocessableEntity, Target: "businessParam", Message: "birthday: lies in the future",
			Details: []Detail{{Code: DetailOutOfRange, Target: "birthday", Message: "lies in the future"}},
		}
	}
	return phones, nil
}

// today is the latest calendar day that is somewhere on Earth, as midnight UTC.
func today(now time.Time) time.Time {
	y, m, d := now.In(eastmost).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

func (f *LeadFields) checkBirthday(p *Problems) (day time.Time, ok bool) {
	if f.Birthday == nil {
		return time.Time{}, false
	}
	day, yearly, ok := Birthday(*f.Birthday)
	switch {
	case ok:
		return day, !yearly
	case twoDays.MatchString(*f.Birthday):
		p.Add(DetailInvalidFormat, "birthday", "could be two days, as the month may stand first or second; write it like 1990-12-31, or --12-31 without a year")
	default:
		p.Add(DetailInvalidFormat, "birthday", "must be a date like 1990-12-31, or --12-31 without a year")
	}
	return time.Time{}, false
}

func (f *LeadFields) checkPhones(p *Problems, region string) []string {
	if len(f.MobilePhone) > maxMobilePhones {
		p.Add(DetailOutOfRange, "mobilePhone", "must be at most %d numbers", maxMobilePhones)
		return nil
	}
	phones := make([]string, 0, len(f.MobilePhone))
	for i, raw := range f.MobilePhone {
		at := fmt.Sprintf("mobilePhone[%d]", i)
		if !checkLine(p, at, &raw, maxLeadShortText) {
			continue
		}
		number, ok := e164(raw, region)
		if !ok {
			p.Add(DetailInvalidFormat, at, "%s", phoneFault(raw, region))
			continue
		}
		if !slices.Contains(phones, number) {
			phones = append(phones, number)
		}
	}
	return phones
}

// checkCustomFields drops members that are null, and adds names, types and lengths that are not allowed
// to p.
func (f *LeadFields) checkCustomFields(p *Problems) {
	if len(f.CustomFields) > maxCustomFields {
		p.Add(DetailOutOfRange, "customFields", "must have at most %d members", maxCustomFields)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(f.CustomFields)) {
		at := join("customFields", name)
		if !isName(name, maxLeadShortText) {
			p.Add(DetailInvalidFormat, at, "the name must be 1 to %d printable characters", maxLeadShortText)
			continue
		}
		switch v := f.CustomFields[name].(type) {
		case nil:
			delete(f.CustomFields, name)
		case bool:
		case string:
			checkText(p, at, &v, maxCustomText)
		case float64:
			checkNumber(p, at, v)
		default:
			p.Add(DetailInvalidType, at, "must be a string, a number or a boolean")
		}
	}
	if len(f.CustomFields) == 0 {
		f.CustomFields = nil
	}
}

func (f *LeadFields) checkConsents(p *Problems) {
	if len(f.Consents) > maxConsents {
		p.Add(DetailOutOfRange, "consents", "must have at most %d members", maxConsents)
		return
	}
	for _, channel := range slices.Sorted(maps.Keys(f.Consents)) {
		at := join("consents", channel)
		if !CheckChannel(p, at, channel) {
			continue
		}
		switch f.Consents[channel].(type) {
		case nil:
			delete(f.Consents, channel)
		case bool:
		default:
			p.Add(DetailInvalidType, at, "must be true or false")
		}
	}
	if len(f.Consents) == 0 {
		f.Consents = nil
	}
}

// checkText checks a text of several lines, checkLine one without line breaks.
// Both take nil for a text that is not set, and tell whether there is no fault.
func checkText(p *Problems, target string, s *string, limit int) bool {
	return checkString(p, target, s, limit, func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r) })
}

func checkLine(p *Problems, target string, s *string, limit int) bool {
	if s != nil && strings.ContainsAny(*s, "\t\r\n") && utf8.RuneCountInString(*s) <= limit {
		p.Add(DetailInvalidFormat, target, "must be one line without tabs")
		return false
	}
	return checkString(p, target, s, limit, unicode.IsControl)
}

func checkString(p *Problems, target string, s *string, limit int, refused func(rune) bool) bool {
	switch {
	case s == nil:
		return true
	case utf8.RuneCountInString(*s) > limit:
		p.Add(DetailTooLong, target, "must be at most %d characters", limit)
	case strings.ContainsFunc(*s, refused):
		p.Add(DetailInvalidFormat, target, "must not contain control characters")
	default:
		return true
	}
	return false
}

// checkKey checks an id that leads are found by: an empty one would be everybody's.
func checkKey(p *Problems, target string, s *string) {
	if s != nil && *s == "" {
		p.Add(DetailInvalidFormat, target, "must not be blank; leave it out or send null")
		return
	}
	checkLine(p, target, s, maxLeadID)
}

func checkEmail(p *Problems, target string, s *string) {
	if s == nil || !checkLine(p, target, s, maxLeadEmail) {
		return
	}
	addr, err := mail.ParseAddress(*s)
	switch {
	case strings.ContainsAny(*s, " <>,;，；、"):
		p.Add(DetailInvalidFormat, target, "is no e-mail address: it must be one alone, without blanks")
	case err != nil || addr.Address != *s || addr.Name != "" || strings.ContainsAny(*s, "\"[]"):
		p.Add(DetailInvalidFormat, target, "is no e-mail address")
	}
}

// checkWebsite takes addresses with and without a scheme, as people write them.
func checkWebsite(p *Problems, target string, s *string) {
	if s == nil || !checkLine(p, target, s, maxLeadWebsite) {
		return
	}
	address := *s
	if !strings.Contains(address, "://") {
		address = "https://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || strings.ContainsAny(*s, " <>\"") ||
		!strings.Contains(strings.Trim(u.Hostname(), "."), ".") {
		p.Add(DetailInvalidFormat, target, "is no web address; write it like https://example.com")
	}
}

// checkNumber refuses integers that are no longer exact in a float64.
func checkNumber(p *Problems, target string, v float64) {
	if math.IsNaN(v) || math.Abs(v) > maxExactNumber {
		p.Add(DetailOutOfRange, target, inexact)
	}
}
