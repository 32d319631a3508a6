package nodes

var enroll = Type{
	Name:    "enroll",
	Schema:  "EnrollNode",
	About:   "Enrolls the lead in another journey.",
	Members: []Member{{Name: "journey", Kind: Journey, Required: true, Draft: "the id of the journey that the lead is enrolled in"}, next},
	Enters:  PhaseDecide,
	Acts:    true,
	Title:   Words{"Other journey", "进入其他旅程"},
	Hint:    Words{"Enroll in another journey", "加入另一个旅程"},
	Summary: Words{"Enroll in {journey}", "进入 {journey}"},
	Results: map[string]Words{
		"enrolled":    {"Enrolled", "已进入"},
		"notEnrolled": {"Not enrolled", "未进入"},
	},
	Icon:   "M14 4h4.5A1.5 1.5 0 0 1 20 5.5v13a1.5 1.5 0 0 1-1.5 1.5H14M4 12h10.5M11 8l4 4-4 4",
	Colour: Other,
	Guide:  "enrolls the lead in another `journey`, which it does not wait for, then goes to `next`",
	Rule: "enrolls the lead in another journey and does not wait for it. Ten in a row without a wait are the end, and so are 100 " +
		"enrollments of one lead in a journey that have not ended",
	Examples: []string{`{"journey":"jrn_2"}`},
}
