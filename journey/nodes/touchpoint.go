package nodes

var touchpoint = Type{
	Name:   "touchpoint",
	Schema: "Touchpoint",
	About:  "Sends one message through a webhook.",
	Members: []Member{
		{Name: "webhook", Kind: Webhook, Required: true},
		{Name: "params", Kind: Templates, Max: 64, Holds: []string{"string", "number"}, About: "Override the webhook's."},
		{Name: "next", Kind: Way, Drawn: Words{"Delivered", "已送达"}, Said: Words{"Delivered", "送达"}},
		{Name: "onFailure", Kind: Way, Else: "next", Drawn: Words{"Not delivered", "未送达"}, Said: Words{"Not delivered", "未送达"}},
	},
	Enters: PhaseSend,
	Title:  Words{"Message", "消息"},
	Hint:   Words{"Send through a webhook", "通过 Webhook 发送"},
	Timeline: map[string]Words{
		"sent":   {"Delivered", "已送达"},
		"failed": {"Not delivered", "未送达"},
	},
	Results: map[string]Words{
		"delivered": {"Delivered", "送达"},
		"failed":    {"Not delivered", "未送达"},
	},
	Icon:   "M21 3 10.5 13.5M21 3l-6.6 18-3.9-7.5L3 9.6z",
	Colour: Send,
	Guide: "POSTs a message to `webhook`. Its `params` override the webhook's. Goes to `next`; if the message is given up, to `onFailure`, " +
		"or to `next` without one",
	Rule: "sends a message. Its `params` override the webhook's. One that is given up goes to `onFailure`, or to `next` without it",
	Examples: []string{
		`{"webhook":"whk_1"}`,
		`{"webhook":"whk_1","params":{"n":1.50,"s":"Hi {{ lead.name }}"}}`,
		`{"webhook":"whk_1","params":{"n":-3,"empty":"","s":"\u2028<&>\"\\é你"}}`,
		`{"webhook":"whk_1","params":{"s":"{{ 1 | divided_by: lead.customFields.none }}"}}`,
	},
}
