package journey_test

import (
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
)

// Conditions that use a built-in field as what it is not are refused where they are written, with the
// type of the field and what to write.
func TestTypesOfFields(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		`lead.gender == "male"`:                `lead.gender is a number: write lead.gender == 1`,
		`lead.gender == "1"`:                   `lead.gender is a number: write lead.gender == 1`,
		`lead.gender == 3`:                     `lead.gender is 0 (unknown), 1 (male) or 2 (female)`,
		`lead.gender in [1, 9]`:                `lead.gender is 0 (unknown), 1 (male) or 2 (female)`,
		`-1 != lead.gender`:                    `lead.gender is 0 (unknown), 1 (male) or 2 (female)`,
		`lead.consents.SMS`:                    `channels of consents are in lower case: write lead.consents.sms`,
		`lead.consents["Sms"] == true`:         `channels of consents are in lower case: write lead.consents.sms`,
		`has(lead.consents.SMS)`:               `channels of consents are in lower case: write lead.consents.sms`,
		`"1" != lead["gender"]`:                `lead.gender is a number: write lead.gender != 1`,
		`lead.leadsId == "5"`:                  `lead.leadsId is a number: write lead.leadsId == 5`,
		`lead.test == "true"`:                  `lead.test is true or false: write lead.test`,
		`lead.test == "false"`:                 `write !lead.test`,
		`lead.mobilePhone == "13800138000"`:    `lead.mobilePhone is a list of texts: write lead.mobilePhone.exists(p, p.contains("138"))`,
		`lead.mobilePhone.contains("138")`:     `lead.mobilePhone is a list of texts`,
		`138 in lead.mobilePhone`:              `no matching overload for '@in'`,
		`lead.createdAt > "2026-01-01"`:        `lead.createdAt is a time: write lead.createdAt > timestamp("2026-01-01")`,
		`lead.updatedAt.startsWith("2026")`:    `lead.updatedAt is a time`,
		`lead.name > 3`:                        `lead.name is a text: write lead.name > "3"`,
		`lead.name.contains(3)`:                `lead.name is a text: write lead.name.contains("3")`,
		`lead.name == lead.gender`:             `lead.name is a text`,
		`lead.name + 1 > 3`:                    `lead.name is a text`,
		`lead.name`:                            `lead.name is a text: write lead.name == "…"`,
		`lead.name && lead.test`:               `lead.name is a text`,
		`lead.name.first == "A"`:               `lead.name is a text, which has no member "first"`,
		`lead.email == 5`:                      `lead.email is a text: write lead.email == "5"`,
		`lead.email in [5, 6]`:                 `lead.email is a text: write lead.email in ["…", "…"]`,
		`lead.email in "a@example.com"`:        `lead.email is a text: write lead.email in ["…", "…"]`,
		`lead.gender in [1, "2"]`:              `lead.gender is a number: write lead.gender in [1, 2]`,
		`lead.email.exists(c, c == "a")`:       `lead.email is a text`,
		`lead.birthday > 5`:                    `lead.birthday is a text such as 1990-12-31: write date(lead.birthday) < today`,
		`lead.birthday < today`:                `lead.birthday is a text such as 1990-12-31`,
		`lead.birthday == "12-31"`:             `"12-31" is no birthday`,
		`"--12-31" < lead.birthday`:            `"--12-31" is no birthday`,
		`lead.customFields == "gold"`:          `lead.customFields is an object: write lead.customFields.plan == "gold"`,
		`lead.consents.sms == "yes"`:           `lead.consents.sms is true or false`,
		`lead.consents["e mail"] > 3`:          `lead.consents["e mail"] is true or false`,
		`lead.test < now`:                      `lead.test is true or false`,
		`lead.leadsId == null`:                 `lead.leadsId is always set`,
		`journey.version > "1"`:                `journey.version is a number: write journey.version > 1`,
		`journey.name == 1`:                    `journey.name is a text: write journey.name == "1"`,
		`enrollment.entryKey == 7`:             `enrollment.entryKey is a text`,
		`enrollment.params > 3`:                `enrollment.params is an object`,
		`enrollment.event.acceptedAt == "x"`:   `enrollment.event.acceptedAt is a time`,
		`enrollment.event.name > 1`:            `enrollment.event.name is a text`,
		`touchpoints.hello.httpStatus > "400"`: `touchpoints.hello.httpStatus is a number: write touchpoints.hello.httpStatus > 400`,
		`touchpoints.hello.succeed == 1`:       `touchpoints.hello.succeed is true or false`,
		`touchpoints["hello"].message == 3`:    `touchpoints.hello.message is a text`,
		`now == null`:                          `now is always set`,
		`today > "2026-01-01"`:                 `no matching overload for '_>_'`,
		`lead.birthday.getMonth() == 1`:        `lead.birthday is a text such as 1990-12-31: write date(lead.birthday)`,
	} {
		t.Run(condition, func(t *testing.T) {
			t.Parallel()
			problems := branchOn(t, condition).Check(nil, nil)
			if len(problems) != 1 || problems[0].Code != waypost.DetailInvalidFormat || !strings.Contains(problems[0].Message, want) {
				t.Errorf("%v, want %s", problems, want)
			}
		})
	}
	// The same types fit.
	for _, condition := range []string{
		`lead.gender == lead.customFields.x`, `lead.gender in [1, 2] && !(lead.leadsId in [5])`, `lead.name in ["a", lead.customFields.n]`, `lead.birthday == "--12-31"`,
		`lead.name == null || lead.name != "Ada"`, `lead.createdAt > now - duration("24h") || lead.createdAt == null`, `"+8613800138000" in lead.mobilePhone`,
		`lead.mobilePhone == null || lead.mobilePhone.exists(p, p.startsWith("138"))`, `lead.mobilePhone[0] == "1"`, `lead.consents.sms`, `"sms" in lead.consents && !lead.consents.sms`,
		`has(touchpoints.hello) && has(touchpoints.hello.message)`, `touchpoints.hello == null`, `lead.email == enrollment.params.email`, `lead.size() > 3`,
		`lead.customFields.exists(k, k == "a")`, `journey.version >= 2 && journey.id != "jrn_1"`, `now - lead.createdAt > duration("1h")`, `has(lead.name)`, `enrollment.event == null`,
	} {
		if problems := branchOn(t, condition).Check(nil, nil); len(problems) > 0 {
			t.Errorf("%s: %v", condition, problems)
		}
	}
	if err := journey.CheckSegment(`lead.gender == "1"`); err == nil || !strings.Contains(err.Error(), "lead.gender is a number") {
		t.Errorf("of a segment: %v", err)
	}
}

// Entries and goals are checked as branches are.
func TestTypesElsewhere(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"name":"x","start":"e","entry":[{"leadCreated":true,"when":"lead.name > 3","entryKey":"lead.createdAt"}],
		"goal":{"event":"buy","when":"lead.gender == \"1\"","value":"lead.name"},"nodes":[{"id":"e","type":"exit"}]}`)
	var found []string
	for _, p := range d.Check(nil, nil) {
		found = append(found, p.Target+": "+p.Message)
	}
	for _, want := range []string{
		`entry[0].when: line 1, column 11: lead.name is a text`, `entry[0].entryKey: lead.createdAt is a time`, `goal.when: line 1, column 13: lead.gender is a number`, `goal.value: lead.name is a text`,
	} {
		if !strings.Contains(strings.Join(found, "\n"), want) {
			t.Errorf("%q is not among\n%s", want, strings.Join(found, "\n"))
		}
	}
}

// What is not set is null, wherever it is not.
func TestNull(t *testing.T) {
	t.Parallel()
	null := []string{
		"lead.customFields.nosuch", "lead.customFields.obj.nosuch", "lead.customFields.nosuch.k", "lead.customFields.tier.k", "lead.email", "lead['email']", "lead.customFields['no such']",
		"enrollment.event", "enrollment.event.properties.q", "enrollment.params.nosuch", "enrollment.params.items[7]", "touchpoints.later", "touchpoints.later.succeed", "lead.consents.sms",
		"lead.customFields.?nosuch", "lead.?email",
	}
	set := []string{"lead.name", "lead.region", "lead.customFields.tier", "lead.customFields.obj.k", "touchpoints.hello.message", "enrollment.params.items[0]", "lead.?name"}
	f := facts()
	f.Lead.Email, f.Lead.MobilePhone = nil, nil
	f.Lead.Region = ptr(int64(1) << 60) // more than a number of conditions can be
	f.Lead.CustomFields["obj"] = map[string]any{"k": 1.0}
	is := func(condition string) bool {
		arm, _ := nullBranch(t, condition).Decide("b", f)
		return arm == 0
	}
	for list, isNull := range map[*[]string]bool{&null: true, &set: false} {
		for _, of := range *list {
			if is(of+" == null") != isNull || is("null != "+of) == isNull {
				t.Errorf("%s is null: %t", of, !isNull)
			}
			if !strings.HasSuffix(of, "]") && strings.Contains(of, ".") && !strings.Contains(of, "?") && is("has("+of+")") == isNull {
				t.Errorf("has(%s) is %t", of, isNull)
			}
		}
	}
	if !is("lead.mobilePhone == null") || is("lead.mobilePhone != null") || is("has(lead.mobilePhone)") {
		t.Error("a lead without a number has one")
	}
	f.Lead.MobilePhone = []string{"1"}
	if is("lead.mobilePhone == null") || !is("lead.mobilePhone != null") || !is("has(lead.mobilePhone)") {
		t.Error("a lead with a number has none")
	}
	if is("dyn(lead.customFields.nosuch / 0) == null") {
		t.Error("an error is null")
	}
}

func nullBranch(t *testing.T, condition string) *journey.Definition {
	t.Helper()
	d := branchOn(t, condition)
	for _, p := range d.Check(nil, nil) {
		if !strings.Contains(p.Message, "no touchpoint") {
			t.Fatalf("%s: %v", condition, p)
		}
	}
	return d
}

// E-mail addresses are compared without case, as lists compare them.
func TestEmailIgnoresCase(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Lead.Email = ptr("Ada.L@Straße.example")
	f.Params = map[string]any{"email": "ADA.L@STRASSE.EXAMPLE", "all": []any{"x", "aDA.l@strasse.example"}}
	for condition, want := range map[string]bool{
		`lead.email == "ada.l@straße.example"`: true, `"ADA.L@STRASSE.example" == lead.email`: true, `lead.email != "ada.l@straße.example"`: false, `lead.email == "ada@straße.example"`: false,
		`lead.email in ["b", "ADA.l@straße.example"]`: true, `lead.email in enrollment.params.all`: true, `!(lead.email in ["b"])`: true,
		`lead.email.endsWith("@STRASSE.example")`: true, `lead.email.startsWith("ada")`: true, `lead.email.contains("L@S")`: true, `lead.email == enrollment.params.email`: true,
		`lead["email"] == "ada.l@straße.example"`: true, `lead.email.matches("^ada")`: false, `lead.name == "zaphod"`: false,
	} {
		if arm, reason := branchOn(t, condition).Decide("b", f); (arm == 0) != want {
			t.Errorf("%s: %s", condition, reason)
		}
	}
	f.Lead.Email = nil
	for _, condition := range []string{`lead.email == "a"`, `lead.email != "a"`, `lead.email.startsWith("a")`} {
		if arm, reason := branchOn(t, condition).Decide("b", f); arm == 0 || !strings.HasSuffix(reason, "error: missing value") {
			t.Errorf("%s: %s", condition, reason)
		}
	}
}

// A birthday without a year is before and after no day.
func TestBirthdayWithoutYear(t *testing.T) {
	t.Parallel()
	f := facts()
	f.Lead.Birthday, f.Now = ptr("--03-01"), time.Date(2026, 2, 27, 12, 0, 0, 0, time.UTC)
	for condition, want := range map[string]string{
		`lead.birthday < "1990-12-31"`: "a day without a year", `"1990-12-31" < lead.birthday`: "a day without a year", `lead.birthday >= "1990-12-31"`: "a day without a year",
		`lead.birthday == "--03-01"`: "true", `lead.birthday.startsWith("--03")`: "true",
	} {
		if _, reason := branchOn(t, condition).Decide("b", f); !strings.HasSuffix(reason, want) {
			t.Errorf("%s: %s", condition, reason)
		}
	}
}
