package waypost

import (
	"regexp"
	"strings"
	"time"
)

// leapYear is a year with a 29th of February: that of a day without one.
const leapYear = "2000"

// Birthday reads the birthday of a lead: YYYY-MM-DD, or, yearly, --MM-DD for a day whose
// year is not known, which is one of the year 2000.
func Birthday(text string) (day time.Time, yearly, ok bool) {
	if rest, cut := strings.CutPrefix(text, "--"); cut {
		text, yearly = leapYear+"-"+rest, true
	}
	day, err := time.Parse(time.DateOnly, text)
	return day, yearly, err == nil && day.Year() >= 1
}

// BirthdayFilter cleans and checks what birthdays are looked for by: a date, or --MM-DD for
// that day of any year.
func BirthdayFilter(p *Problems, target, text string) string {
	text = CleanKey(text)
	if _, _, ok := Birthday(text); !ok {
		p.Add(DetailInvalidFormat, target, "must be a date like 1990-12-31, or --12-31 for that day of any year")
	}
	return text
}

var (
	// twoDays are dates that people write with the month first or second.
	twoDays = regexp.MustCompile(`^\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}\b|^\d{1,2}[/.]\d{1,2}$`)
	// withoutYear is a month and a day: -- is ISO 8601's sign for the year that is missing.
	withoutYear = regexp.MustCompile(`^(?:--)?(\d{2})-?(\d{2})$`)
)

// birthdayOfFile is a birthday as it is stored, of one as spreadsheets and address books
// write it: the forms of days that ParseDate reads, also with the midnight that a program
// has added, and a month and a day (12-31). What is none of them, or could be two days,
// stays as it is, to be refused.
func birthdayOfFile(text string) string {
	if m := withoutYear.FindStringSubmatch(text); m != nil && strings.Contains(text, "-") {
		return "--" + m[1] + "-" + m[2]
	}
	day, zoned, ok := ParseDate(text)
	midnight := day.Hour() == 0 && day.Minute() == 0 && day.Second() == 0 && day.Nanosecond() == 0
	if !ok || zoned && (!midnight || epochSeconds.MatchString(text)) {
		return text // an instant is another day elsewhere
	}
	return day.Format(time.DateOnly)
}
