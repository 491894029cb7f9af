module static_32x4(batch, computing, ready, clk, rst, fetch, address__0, address__1, address__2, address__3, valid, sent__0, sent__1, sent__2, sent__3, done, error, start);
  reg \$auto$verilog_backend.cc:2505:dump_module$1  = 0;
  input [5:0] batch;
  wire [5:0] batch;
  input [31:0] computing;
  wire [31:0] computing;
  input [3:0] ready;
  wire [3:0] ready;
  input clk;
  wire clk;
  input rst;
  wire rst;
  output [3:0] fetch;
  wire [3:0] fetch;
  output [8:0] address__0;
  wire [8:0] address__0;
  output [8:0] address__1;
  wire [8:0] address__1;
  output [8:0] address__2;
  wire [8:0] address__2;
  output [8:0] address__3;
  wire [8:0] address__3;
  output [3:0] valid;
  wire [3:0] valid;
  output [4:0] sent__0;
  wire [4:0] sent__0;
  output [4:0] sent__1;
  wire [4:0] sent__1;
  output [4:0] sent__2;
  wire [4:0] sent__2;
  output [4:0] sent__3;
  wire [4:0] sent__3;
  output done;
  wire done;
  output error;
  reg error = 1'h0;
  input start;
  wire start;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire [5:0] \$12 ;
  wire [6:0] \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire \$18 ;
  wire [5:0] \$19 ;
  wire \$2 ;
  wire [6:0] \$20 ;
  wire \$21 ;
  wire \$22 ;
  wire \$23 ;
  wire \$24 ;
  wire \$25 ;
  wire [5:0] \$26 ;
  wire [6:0] \$27 ;
  wire \$28 ;
  wire \$29 ;
  wire \$3 ;
  wire [3:0] \$30 ;
  wire \$31 ;
  wire \$32 ;
  wire \$33 ;
  wire \$34 ;
  reg [3:0] \$35 ;
  reg \$36 ;
  wire \$4 ;
  wire [5:0] \$5 ;
  wire [6:0] \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire \$9 ;
  wire [3:0] \$signal ;
  wire [8:0] address;
  wire [8:0] \address$35 ;
  wire [8:0] \address$45 ;
  wire [8:0] \address$55 ;
  wire \begin ;
  wire \begin$30 ;
  wire \begin$40 ;
  wire \begin$50 ;
  reg computes;
  reg \computes$32 ;
  reg \computes$42 ;
  reg \computes$52 ;
  reg [3:0] count;
  reg [3:0] \count$31 ;
  reg [3:0] \count$41 ;
  reg [3:0] \count$51 ;
  wire \done$29 ;
  wire \done$39 ;
  wire \done$49 ;
  wire \done$59 ;
  wire \fetch$22 ;
  wire \fetch$34 ;
  wire \fetch$44 ;
  wire \fetch$54 ;
  wire \ready$25 ;
  wire \ready$37 ;
  wire \ready$47 ;
  wire \ready$57 ;
  wire [2:0] sent;
  wire [2:0] \sent$38 ;
  wire [2:0] \sent$48 ;
  wire [2:0] \sent$58 ;
  wire [2:0] \sequence ;
  wire [2:0] \sequence$33 ;
  wire [2:0] \sequence$43 ;
  wire [2:0] \sequence$53 ;
  reg [3:0] through = 4'h0;
  wire \valid$24 ;
  wire \valid$36 ;
  wire \valid$46 ;
  wire \valid$56 ;
  assign \$1  = ! batch;
  assign \$2  = batch > 6'h20;
  assign \$3  = \$1  | \$2 ;
  assign \$4  = ~ \$3 ;
  assign \begin  = start & \$4 ;
  assign \$5  = 3'h4 * sent;
  assign \$6  = 1'h0 + \$5 ;
  assign \$7  = through[0] | \done$29 ;
  assign \$8  = ! batch;
  assign \$9  = batch > 6'h20;
  assign \$10  = \$8  | \$9 ;
  assign \$11  = ~ \$10 ;
  assign \begin$30  = start & \$11 ;
  assign \$12  = 3'h4 * \sent$38 ;
  assign \$13  = 1'h1 + \$12 ;
  assign \$14  = through[1] | \done$39 ;
  assign \$15  = ! batch;
  assign \$16  = batch > 6'h20;
  assign \$17  = \$15  | \$16 ;
  assign \$18  = ~ \$17 ;
  assign \begin$40  = start & \$18 ;
  assign \$19  = 3'h4 * \sent$48 ;
  assign \$20  = 2'h2 + \$19 ;
  assign \$21  = through[2] | \done$49 ;
  assign \$22  = ! batch;
  assign \$23  = batch > 6'h20;
  assign \$24  = \$22  | \$23 ;
  assign \$25  = ~ \$24 ;
  assign \begin$50  = start & \$25 ;
  assign \$26  = 3'h4 * \sent$58 ;
  assign \$27  = 2'h3 + \$26 ;
  assign \$28  = through[3] | \done$59 ;
  assign \$29  = & \$signal ;
  assign done = \$29  | error;
  assign \$30  = done ? 4'h0 : \$signal ;
  assign \$31  = ! batch;
  assign \$32  = batch > 6'h20;
  assign \$33  = \$31  | \$32 ;
  assign \$34  = start & \$33 ;
  always @(posedge clk)
    through <= \$35 ;
  always @(posedge clk)
    error <= \$36 ;
  \top.core_0  core_0 (
    .address(address__0),
    .\begin (\begin ),
    .clk(clk),
    .computes(computes),
    .count(count),
    .done(\done$29 ),
    .fetch(\fetch$22 ),
    .ready(ready[0]),
    .rst(rst),
    .sent(sent),
    .\sequence (\sequence ),
    .valid(\valid$24 )
  );
  \top.core_1  core_1 (
    .address(address__1),
    .\begin (\begin$30 ),
    .clk(clk),
    .computes(\computes$32 ),
    .count(\count$31 ),
    .done(\done$39 ),
    .fetch(\fetch$34 ),
    .ready(ready[1]),
    .rst(rst),
    .sent(\sent$38 ),
    .\sequence (\sequence$33 ),
    .valid(\valid$36 )
  );
  \top.core_2  core_2 (
    .address(address__2),
    .\begin (\begin$40 ),
    .clk(clk),
    .computes(\computes$42 ),
    .count(\count$41 ),
    .done(\done$49 ),
    .fetch(\fetch$44 ),
    .ready(ready[2]),
    .rst(rst),
    .sent(\sent$48 ),
    .\sequence (\sequence$43 ),
    .valid(\valid$46 )
  );
  \top.core_3  core_3 (
    .address(address__3),
    .\begin (\begin$50 ),
    .clk(clk),
    .computes(\computes$52 ),
    .count(\count$51 ),
    .done(\done$59 ),
    .fetch(\fetch$54 ),
    .ready(ready[3]),
    .rst(rst),
    .sent(\sent$58 ),
    .\sequence (\sequence$53 ),
    .valid(\valid$56 )
  );
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    count = 4'h0;
    casez (batch)
      6'h00:
          count = 4'h0;
      6'h01:
          count = 4'h1;
      6'h02:
          count = 4'h1;
      6'h03:
          count = 4'h1;
      6'h04:
          count = 4'h1;
      6'h05:
          count = 4'h2;
      6'h06:
          count = 4'h2;
      6'h07:
          count = 4'h2;
      6'h08:
          count = 4'h2;
      6'h09:
          count = 4'h3;
      6'h0a:
          count = 4'h3;
      6'h0b:
          count = 4'h3;
      6'h0c:
          count = 4'h3;
      6'h0d:
          count = 4'h4;
      6'h0e:
          count = 4'h4;
      6'h0f:
          count = 4'h4;
      6'h10:
          count = 4'h4;
      6'h11:
          count = 4'h5;
      6'h12:
          count = 4'h5;
      6'h13:
          count = 4'h5;
      6'h14:
          count = 4'h5;
      6'h15:
          count = 4'h6;
      6'h16:
          count = 4'h6;
      6'h17:
          count = 4'h6;
      6'h18:
          count = 4'h6;
      6'h19:
          count = 4'h7;
      6'h1a:
          count = 4'h7;
      6'h1b:
          count = 4'h7;
      6'h1c:
          count = 4'h7;
      6'h1d:
          count = 4'h8;
      6'h1e:
          count = 4'h8;
      6'h1f:
          count = 4'h8;
      6'h20:
          count = 4'h8;
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    casez (\sequence )
      3'h0:
          computes = computing[0];
      3'h1:
          computes = computing[4];
      3'h2:
          computes = computing[8];
      3'h3:
          computes = computing[12];
      3'h4:
          computes = computing[16];
      3'h5:
          computes = computing[20];
      3'h6:
          computes = computing[24];
      3'h7:
          computes = computing[28];
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \count$31  = 4'h0;
    casez (batch)
      6'h00:
          \count$31  = 4'h0;
      6'h01:
          \count$31  = 4'h0;
      6'h02:
          \count$31  = 4'h1;
      6'h03:
          \count$31  = 4'h1;
      6'h04:
          \count$31  = 4'h1;
      6'h05:
          \count$31  = 4'h1;
      6'h06:
          \count$31  = 4'h2;
      6'h07:
          \count$31  = 4'h2;
      6'h08:
          \count$31  = 4'h2;
      6'h09:
          \count$31  = 4'h2;
      6'h0a:
          \count$31  = 4'h3;
      6'h0b:
          \count$31  = 4'h3;
      6'h0c:
          \count$31  = 4'h3;
      6'h0d:
          \count$31  = 4'h3;
      6'h0e:
          \count$31  = 4'h4;
      6'h0f:
          \count$31  = 4'h4;
      6'h10:
          \count$31  = 4'h4;
      6'h11:
          \count$31  = 4'h4;
      6'h12:
          \count$31  = 4'h5;
      6'h13:
          \count$31  = 4'h5;
      6'h14:
          \count$31  = 4'h5;
      6'h15:
          \count$31  = 4'h5;
      6'h16:
          \count$31  = 4'h6;
      6'h17:
          \count$31  = 4'h6;
      6'h18:
          \count$31  = 4'h6;
      6'h19:
          \count$31  = 4'h6;
      6'h1a:
          \count$31  = 4'h7;
      6'h1b:
          \count$31  = 4'h7;
      6'h1c:
          \count$31  = 4'h7;
      6'h1d:
          \count$31  = 4'h7;
      6'h1e:
          \count$31  = 4'h8;
      6'h1f:
          \count$31  = 4'h8;
      6'h20:
          \count$31  = 4'h8;
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    casez (\sequence$33 )
      3'h0:
          \computes$32  = computing[1];
      3'h1:
          \computes$32  = computing[5];
      3'h2:
          \computes$32  = computing[9];
      3'h3:
          \computes$32  = computing[13];
      3'h4:
          \computes$32  = computing[17];
      3'h5:
          \computes$32  = computing[21];
      3'h6:
          \computes$32  = computing[25];
      3'h7:
          \computes$32  = computing[29];
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \count$41  = 4'h0;
    casez (batch)
      6'h00:
          \count$41  = 4'h0;
      6'h01:
          \count$41  = 4'h0;
      6'h02:
          \count$41  = 4'h0;
      6'h03:
          \count$41  = 4'h1;
      6'h04:
          \count$41  = 4'h1;
      6'h05:
          \count$41  = 4'h1;
      6'h06:
          \count$41  = 4'h1;
      6'h07:
          \count$41  = 4'h2;
      6'h08:
          \count$41  = 4'h2;
      6'h09:
          \count$41  = 4'h2;
      6'h0a:
          \count$41  = 4'h2;
      6'h0b:
          \count$41  = 4'h3;
      6'h0c:
          \count$41  = 4'h3;
      6'h0d:
          \count$41  = 4'h3;
      6'h0e:
          \count$41  = 4'h3;
      6'h0f:
          \count$41  = 4'h4;
      6'h10:
          \count$41  = 4'h4;
      6'h11:
          \count$41  = 4'h4;
      6'h12:
          \count$41  = 4'h4;
      6'h13:
          \count$41  = 4'h5;
      6'h14:
          \count$41  = 4'h5;
      6'h15:
          \count$41  = 4'h5;
      6'h16:
          \count$41  = 4'h5;
      6'h17:
          \count$41  = 4'h6;
      6'h18:
          \count$41  = 4'h6;
      6'h19:
          \count$41  = 4'h6;
      6'h1a:
          \count$41  = 4'h6;
      6'h1b:
          \count$41  = 4'h7;
      6'h1c:
          \count$41  = 4'h7;
      6'h1d:
          \count$41  = 4'h7;
      6'h1e:
          \count$41  = 4'h7;
      6'h1f:
          \count$41  = 4'h8;
      6'h20:
          \count$41  = 4'h8;
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    casez (\sequence$43 )
      3'h0:
          \computes$42  = computing[2];
      3'h1:
          \computes$42  = computing[6];
      3'h2:
          \computes$42  = computing[10];
      3'h3:
          \computes$42  = computing[14];
      3'h4:
          \computes$42  = computing[18];
      3'h5:
          \computes$42  = computing[22];
      3'h6:
          \computes$42  = computing[26];
      3'h7:
          \computes$42  = computing[30];
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \count$51  = 4'h0;
    casez (batch)
      6'h00:
          \count$51  = 4'h0;
      6'h01:
          \count$51  = 4'h0;
      6'h02:
          \count$51  = 4'h0;
      6'h03:
          \count$51  = 4'h0;
      6'h04:
          \count$51  = 4'h1;
      6'h05:
          \count$51  = 4'h1;
      6'h06:
          \count$51  = 4'h1;
      6'h07:
          \count$51  = 4'h1;
      6'h08:
          \count$51  = 4'h2;
      6'h09:
          \count$51  = 4'h2;
      6'h0a:
          \count$51  = 4'h2;
      6'h0b:
          \count$51  = 4'h2;
      6'h0c:
          \count$51  = 4'h3;
      6'h0d:
          \count$51  = 4'h3;
      6'h0e:
          \count$51  = 4'h3;
      6'h0f:
          \count$51  = 4'h3;
      6'h10:
          \count$51  = 4'h4;
      6'h11:
          \count$51  = 4'h4;
      6'h12:
          \count$51  = 4'h4;
      6'h13:
          \count$51  = 4'h4;
      6'h14:
          \count$51  = 4'h5;
      6'h15:
          \count$51  = 4'h5;
      6'h16:
          \count$51  = 4'h5;
      6'h17:
          \count$51  = 4'h5;
      6'h18:
          \count$51  = 4'h6;
      6'h19:
          \count$51  = 4'h6;
      6'h1a:
          \count$51  = 4'h6;
      6'h1b:
          \count$51  = 4'h6;
      6'h1c:
          \count$51  = 4'h7;
      6'h1d:
          \count$51  = 4'h7;
      6'h1e:
          \count$51  = 4'h7;
      6'h1f:
          \count$51  = 4'h7;
      6'h20:
          \count$51  = 4'h8;
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    casez (\sequence$53 )
      3'h0:
          \computes$52  = computing[3];
      3'h1:
          \computes$52  = computing[7];
      3'h2:
          \computes$52  = computing[11];
      3'h3:
          \computes$52  = computing[15];
      3'h4:
          \computes$52  = computing[19];
      3'h5:
          \computes$52  = computing[23];
      3'h6:
          \computes$52  = computing[27];
      3'h7:
          \computes$52  = computing[31];
    endcase
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$35  = \$30 ;
    if (rst) begin
      \$35  = 4'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$1 ) begin end
    \$36  = \$34 ;
    if (rst) begin
      \$36  = 1'h0;
    end
  end
  assign address = address__0;
  assign \ready$25  = ready[0];
  assign \address$35  = address__1;
  assign \ready$37  = ready[1];
  assign \address$45  = address__2;
  assign \ready$47  = ready[2];
  assign \address$55  = address__3;
  assign \ready$57  = ready[3];
  assign sent__0 = \$6 [4:0];
  assign sent__1 = \$13 [4:0];
  assign sent__2 = \$20 [4:0];
  assign sent__3 = \$27 [4:0];
  assign \$signal [3] = \$28 ;
  assign \$signal [2] = \$21 ;
  assign \$signal [1] = \$14 ;
  assign \$signal [0] = \$7 ;
  assign valid[3] = \valid$56 ;
  assign valid[2] = \valid$46 ;
  assign valid[1] = \valid$36 ;
  assign valid[0] = \valid$24 ;
  assign fetch[3] = \fetch$54 ;
  assign fetch[2] = \fetch$44 ;
  assign fetch[1] = \fetch$34 ;
  assign fetch[0] = \fetch$22 ;
endmodule

module \top.core_0 (clk, rst, \begin , count, computes, fetch, done, valid, sent, address, \sequence , ready);
  reg \$auto$verilog_backend.cc:2505:dump_module$2  = 0;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input \begin ;
  wire \begin ;
  input [3:0] count;
  wire [3:0] count;
  input computes;
  wire computes;
  output fetch;
  wire fetch;
  output done;
  wire done;
  output valid;
  reg valid = 1'h0;
  output [2:0] sent;
  reg [2:0] sent = 3'h0;
  output [8:0] address;
  reg [8:0] address = 9'h000;
  output [2:0] \sequence ;
  reg [2:0] \sequence  = 3'h0;
  input ready;
  wire ready;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire [2:0] \$18 ;
  wire [2:0] \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire [9:0] \$21 ;
  wire [6:0] \$22 ;
  wire [3:0] \$23 ;
  reg \$24 ;
  reg \$25 ;
  reg \$26 ;
  reg [1:0] \$27 ;
  reg [2:0] \$28 ;
  reg [8:0] \$29 ;
  wire \$3 ;
  reg [5:0] \$30 ;
  reg [2:0] \$31 ;
  wire \$4 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [4:0] \$9 ;
  wire \$signal ;
  reg \$signal$1  = 1'h0;
  wire \$signal$11 ;
  wire \$signal$4 ;
  wire \$signal$7 ;
  wire [-1:0] core;
  reg ending = 1'h0;
  reg [5:0] instruction = 6'h00;
  wire leaves;
  reg [1:0] \wait  = 2'h3;
  assign \$1  = | count;
  assign \$2  = \begin  & \$1 ;
  assign \$signal  = \$signal$1  | \$2 ;
  assign \$3  = ~ ready;
  assign \$4  = valid & \$3 ;
  assign \$5  = ~ \$signal$4 ;
  assign \$6  = \$signal  & \$5 ;
  assign \$7  = ! \wait ;
  assign \$signal$7  = \$6  & \$7 ;
  assign \$8  = instruction == 6'h3f;
  assign leaves = \$signal$7  & \$8 ;
  assign \$9  = count - 1'h1;
  assign \$10  = \sequence  == \$9 ;
  assign \$signal$11  = leaves & \$10 ;
  assign \$11  = ~ \$signal$4 ;
  assign \$12  = ending & \$11 ;
  assign \$13  = ! count;
  assign \$14  = \begin  & \$13 ;
  assign done = \$12  | \$14 ;
  assign \$15  = ~ \$signal$4 ;
  assign \$16  = ~ \$signal$4 ;
  assign \$17  = ! \wait ;
  assign \$18  = \wait  - 1'h1;
  assign \$19  = \$17  ? 3'h3 : \$18 ;
  assign \$21  = address + 1'h1;
  assign \$22  = instruction + 1'h1;
  assign \$23  = \sequence  + 1'h1;
  always @(posedge clk)
    valid <= \$24 ;
  always @(posedge clk)
    ending <= \$25 ;
  always @(posedge clk)
    \$signal$1  <= \$26 ;
  always @(posedge clk)
    \wait  <= \$27 ;
  always @(posedge clk)
    sent <= \$28 ;
  always @(posedge clk)
    address <= \$29 ;
  always @(posedge clk)
    instruction <= \$30 ;
  always @(posedge clk)
    \sequence  <= \$31 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$24  = valid;
    if (\$15 ) begin
      \$24  = 1'h0;
    end
    if (\$signal$7 ) begin
      \$24  = \$20 ;
    end
    if (rst) begin
      \$24  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$25  = ending;
    if (\$15 ) begin
      \$25  = 1'h0;
    end
    if (\$signal$11 ) begin
      \$25  = 1'h1;
    end
    if (rst) begin
      \$25  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$26  = \$signal$1 ;
    if (\$signal ) begin
      \$26  = 1'h1;
    end
    if (\$signal$11 ) begin
      \$26  = 1'h0;
    end
    if (rst) begin
      \$26  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$27  = \wait ;
    if (\$signal ) begin
      if (\$16 ) begin
        \$27  = \$19 [1:0];
      end
    end
    if (rst) begin
      \$27  = 2'h3;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$28  = sent;
    if (\$signal$7 ) begin
      \$28  = \sequence ;
    end
    if (rst) begin
      \$28  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$29  = address;
    if (\$signal$7 ) begin
      \$29  = \$21 [8:0];
    end
    if (\$signal$11 ) begin
      \$29  = 9'h000;
    end
    if (rst) begin
      \$29  = 9'h000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$30  = instruction;
    if (\$signal$7 ) begin
      \$30  = \$22 [5:0];
    end
    if (leaves) begin
      \$30  = 6'h00;
    end
    if (rst) begin
      \$30  = 6'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$2 ) begin end
    \$31  = \sequence ;
    if (leaves) begin
      \$31  = \$23 [2:0];
    end
    if (\$signal$11 ) begin
      \$31  = 3'h0;
    end
    if (rst) begin
      \$31  = 3'h0;
    end
  end
  assign fetch = \$signal$7 ;
  assign \$signal$4  = \$4 ;
  assign \$20  = computes;
endmodule

module \top.core_1 (clk, rst, \begin , count, computes, fetch, done, valid, sent, address, \sequence , ready);
  reg \$auto$verilog_backend.cc:2505:dump_module$3  = 0;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input \begin ;
  wire \begin ;
  input [3:0] count;
  wire [3:0] count;
  input computes;
  wire computes;
  output fetch;
  wire fetch;
  output done;
  wire done;
  output valid;
  reg valid = 1'h0;
  output [2:0] sent;
  reg [2:0] sent = 3'h0;
  output [8:0] address;
  reg [8:0] address = 9'h000;
  output [2:0] \sequence ;
  reg [2:0] \sequence  = 3'h0;
  input ready;
  wire ready;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire [2:0] \$18 ;
  wire [2:0] \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire [9:0] \$21 ;
  wire [6:0] \$22 ;
  wire [3:0] \$23 ;
  reg \$24 ;
  reg \$25 ;
  reg \$26 ;
  reg [1:0] \$27 ;
  reg [2:0] \$28 ;
  reg [8:0] \$29 ;
  wire \$3 ;
  reg [5:0] \$30 ;
  reg [2:0] \$31 ;
  wire \$4 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [4:0] \$9 ;
  wire \$signal ;
  reg \$signal$1  = 1'h0;
  wire \$signal$11 ;
  wire \$signal$4 ;
  wire \$signal$7 ;
  wire [-1:0] core;
  reg ending = 1'h0;
  reg [5:0] instruction = 6'h00;
  wire leaves;
  reg [1:0] \wait  = 2'h3;
  assign \$1  = | count;
  assign \$2  = \begin  & \$1 ;
  assign \$signal  = \$signal$1  | \$2 ;
  assign \$3  = ~ ready;
  assign \$4  = valid & \$3 ;
  assign \$5  = ~ \$signal$4 ;
  assign \$6  = \$signal  & \$5 ;
  assign \$7  = ! \wait ;
  assign \$signal$7  = \$6  & \$7 ;
  assign \$8  = instruction == 6'h3f;
  assign leaves = \$signal$7  & \$8 ;
  assign \$9  = count - 1'h1;
  assign \$10  = \sequence  == \$9 ;
  assign \$signal$11  = leaves & \$10 ;
  assign \$11  = ~ \$signal$4 ;
  assign \$12  = ending & \$11 ;
  assign \$13  = ! count;
  assign \$14  = \begin  & \$13 ;
  assign done = \$12  | \$14 ;
  assign \$15  = ~ \$signal$4 ;
  assign \$16  = ~ \$signal$4 ;
  assign \$17  = ! \wait ;
  assign \$18  = \wait  - 1'h1;
  assign \$19  = \$17  ? 3'h3 : \$18 ;
  assign \$21  = address + 1'h1;
  assign \$22  = instruction + 1'h1;
  assign \$23  = \sequence  + 1'h1;
  always @(posedge clk)
    valid <= \$24 ;
  always @(posedge clk)
    ending <= \$25 ;
  always @(posedge clk)
    \$signal$1  <= \$26 ;
  always @(posedge clk)
    \wait  <= \$27 ;
  always @(posedge clk)
    sent <= \$28 ;
  always @(posedge clk)
    address <= \$29 ;
  always @(posedge clk)
    instruction <= \$30 ;
  always @(posedge clk)
    \sequence  <= \$31 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$24  = valid;
    if (\$15 ) begin
      \$24  = 1'h0;
    end
    if (\$signal$7 ) begin
      \$24  = \$20 ;
    end
    if (rst) begin
      \$24  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$25  = ending;
    if (\$15 ) begin
      \$25  = 1'h0;
    end
    if (\$signal$11 ) begin
      \$25  = 1'h1;
    end
    if (rst) begin
      \$25  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$26  = \$signal$1 ;
    if (\$signal ) begin
      \$26  = 1'h1;
    end
    if (\$signal$11 ) begin
      \$26  = 1'h0;
    end
    if (rst) begin
      \$26  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$27  = \wait ;
    if (\$signal ) begin
      if (\$16 ) begin
        \$27  = \$19 [1:0];
      end
    end
    if (rst) begin
      \$27  = 2'h3;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$28  = sent;
    if (\$signal$7 ) begin
      \$28  = \sequence ;
    end
    if (rst) begin
      \$28  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$29  = address;
    if (\$signal$7 ) begin
      \$29  = \$21 [8:0];
    end
    if (\$signal$11 ) begin
      \$29  = 9'h000;
    end
    if (rst) begin
      \$29  = 9'h000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$30  = instruction;
    if (\$signal$7 ) begin
      \$30  = \$22 [5:0];
    end
    if (leaves) begin
      \$30  = 6'h00;
    end
    if (rst) begin
      \$30  = 6'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$3 ) begin end
    \$31  = \sequence ;
    if (leaves) begin
      \$31  = \$23 [2:0];
    end
    if (\$signal$11 ) begin
      \$31  = 3'h0;
    end
    if (rst) begin
      \$31  = 3'h0;
    end
  end
  assign fetch = \$signal$7 ;
  assign \$signal$4  = \$4 ;
  assign \$20  = computes;
endmodule

module \top.core_2 (clk, rst, \begin , count, computes, fetch, done, valid, sent, address, \sequence , ready);
  reg \$auto$verilog_backend.cc:2505:dump_module$4  = 0;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input \begin ;
  wire \begin ;
  input [3:0] count;
  wire [3:0] count;
  input computes;
  wire computes;
  output fetch;
  wire fetch;
  output done;
  wire done;
  output valid;
  reg valid = 1'h0;
  output [2:0] sent;
  reg [2:0] sent = 3'h0;
  output [8:0] address;
  reg [8:0] address = 9'h000;
  output [2:0] \sequence ;
  reg [2:0] \sequence  = 3'h0;
  input ready;
  wire ready;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire [2:0] \$18 ;
  wire [2:0] \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire [9:0] \$21 ;
  wire [6:0] \$22 ;
  wire [3:0] \$23 ;
  reg \$24 ;
  reg \$25 ;
  reg \$26 ;
  reg [1:0] \$27 ;
  reg [2:0] \$28 ;
  reg [8:0] \$29 ;
  wire \$3 ;
  reg [5:0] \$30 ;
  reg [2:0] \$31 ;
  wire \$4 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [4:0] \$9 ;
  wire \$signal ;
  reg \$signal$1  = 1'h0;
  wire \$signal$11 ;
  wire \$signal$4 ;
  wire \$signal$7 ;
  wire [-1:0] core;
  reg ending = 1'h0;
  reg [5:0] instruction = 6'h00;
  wire leaves;
  reg [1:0] \wait  = 2'h3;
  assign \$1  = | count;
  assign \$2  = \begin  & \$1 ;
  assign \$signal  = \$signal$1  | \$2 ;
  assign \$3  = ~ ready;
  assign \$4  = valid & \$3 ;
  assign \$5  = ~ \$signal$4 ;
  assign \$6  = \$signal  & \$5 ;
  assign \$7  = ! \wait ;
  assign \$signal$7  = \$6  & \$7 ;
  assign \$8  = instruction == 6'h3f;
  assign leaves = \$signal$7  & \$8 ;
  assign \$9  = count - 1'h1;
  assign \$10  = \sequence  == \$9 ;
  assign \$signal$11  = leaves & \$10 ;
  assign \$11  = ~ \$signal$4 ;
  assign \$12  = ending & \$11 ;
  assign \$13  = ! count;
  assign \$14  = \begin  & \$13 ;
  assign done = \$12  | \$14 ;
  assign \$15  = ~ \$signal$4 ;
  assign \$16  = ~ \$signal$4 ;
  assign \$17  = ! \wait ;
  assign \$18  = \wait  - 1'h1;
  assign \$19  = \$17  ? 3'h3 : \$18 ;
  assign \$21  = address + 1'h1;
  assign \$22  = instruction + 1'h1;
  assign \$23  = \sequence  + 1'h1;
  always @(posedge clk)
    valid <= \$24 ;
  always @(posedge clk)
    ending <= \$25 ;
  always @(posedge clk)
    \$signal$1  <= \$26 ;
  always @(posedge clk)
    \wait  <= \$27 ;
  always @(posedge clk)
    sent <= \$28 ;
  always @(posedge clk)
    address <= \$29 ;
  always @(posedge clk)
    instruction <= \$30 ;
  always @(posedge clk)
    \sequence  <= \$31 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$24  = valid;
    if (\$15 ) begin
      \$24  = 1'h0;
    end
    if (\$signal$7 ) begin
      \$24  = \$20 ;
    end
    if (rst) begin
      \$24  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$25  = ending;
    if (\$15 ) begin
      \$25  = 1'h0;
    end
    if (\$signal$11 ) begin
      \$25  = 1'h1;
    end
    if (rst) begin
      \$25  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$26  = \$signal$1 ;
    if (\$signal ) begin
      \$26  = 1'h1;
    end
    if (\$signal$11 ) begin
      \$26  = 1'h0;
    end
    if (rst) begin
      \$26  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$27  = \wait ;
    if (\$signal ) begin
      if (\$16 ) begin
        \$27  = \$19 [1:0];
      end
    end
    if (rst) begin
      \$27  = 2'h3;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$28  = sent;
    if (\$signal$7 ) begin
      \$28  = \sequence ;
    end
    if (rst) begin
      \$28  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$29  = address;
    if (\$signal$7 ) begin
      \$29  = \$21 [8:0];
    end
    if (\$signal$11 ) begin
      \$29  = 9'h000;
    end
    if (rst) begin
      \$29  = 9'h000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$30  = instruction;
    if (\$signal$7 ) begin
      \$30  = \$22 [5:0];
    end
    if (leaves) begin
      \$30  = 6'h00;
    end
    if (rst) begin
      \$30  = 6'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$4 ) begin end
    \$31  = \sequence ;
    if (leaves) begin
      \$31  = \$23 [2:0];
    end
    if (\$signal$11 ) begin
      \$31  = 3'h0;
    end
    if (rst) begin
      \$31  = 3'h0;
    end
  end
  assign fetch = \$signal$7 ;
  assign \$signal$4  = \$4 ;
  assign \$20  = computes;
endmodule

module \top.core_3 (clk, rst, \begin , count, computes, fetch, done, valid, sent, address, \sequence , ready);
  reg \$auto$verilog_backend.cc:2505:dump_module$5  = 0;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input \begin ;
  wire \begin ;
  input [3:0] count;
  wire [3:0] count;
  input computes;
  wire computes;
  output fetch;
  wire fetch;
  output done;
  wire done;
  output valid;
  reg valid = 1'h0;
  output [2:0] sent;
  reg [2:0] sent = 3'h0;
  output [8:0] address;
  reg [8:0] address = 9'h000;
  output [2:0] \sequence ;
  reg [2:0] \sequence  = 3'h0;
  input ready;
  wire ready;
  wire \$1 ;
  wire \$10 ;
  wire \$11 ;
  wire \$12 ;
  wire \$13 ;
  wire \$14 ;
  wire \$15 ;
  wire \$16 ;
  wire \$17 ;
  wire [2:0] \$18 ;
  wire [2:0] \$19 ;
  wire \$2 ;
  wire \$20 ;
  wire [9:0] \$21 ;
  wire [6:0] \$22 ;
  wire [3:0] \$23 ;
  reg \$24 ;
  reg \$25 ;
  reg \$26 ;
  reg [1:0] \$27 ;
  reg [2:0] \$28 ;
  reg [8:0] \$29 ;
  wire \$3 ;
  reg [5:0] \$30 ;
  reg [2:0] \$31 ;
  wire \$4 ;
  wire \$5 ;
  wire \$6 ;
  wire \$7 ;
  wire \$8 ;
  wire [4:0] \$9 ;
  wire \$signal ;
  reg \$signal$1  = 1'h0;
  wire \$signal$11 ;
  wire \$signal$4 ;
  wire \$signal$7 ;
  wire [-1:0] core;
  reg ending = 1'h0;
  reg [5:0] instruction = 6'h00;
  wire leaves;
  reg [1:0] \wait  = 2'h3;
  assign \$1  = | count;
  assign \$2  = \begin  & \$1 ;
  assign \$signal  = \$signal$1  | \$2 ;
  assign \$3  = ~ ready;
  assign \$4  = valid & \$3 ;
  assign \$5  = ~ \$signal$4 ;
  assign \$6  = \$signal  & \$5 ;
  assign \$7  = ! \wait ;
  assign \$signal$7  = \$6  & \$7 ;
  assign \$8  = instruction == 6'h3f;
  assign leaves = \$signal$7  & \$8 ;
  assign \$9  = count - 1'h1;
  assign \$10  = \sequence  == \$9 ;
  assign \$signal$11  = leaves & \$10 ;
  assign \$11  = ~ \$signal$4 ;
  assign \$12  = ending & \$11 ;
  assign \$13  = ! count;
  assign \$14  = \begin  & \$13 ;
  assign done = \$12  | \$14 ;
  assign \$15  = ~ \$signal$4 ;
  assign \$16  = ~ \$signal$4 ;
  assign \$17  = ! \wait ;
  assign \$18  = \wait  - 1'h1;
  assign \$19  = \$17  ? 3'h3 : \$18 ;
  assign \$21  = address + 1'h1;
  assign \$22  = instruction + 1'h1;
  assign \$23  = \sequence  + 1'h1;
  always @(posedge clk)
    valid <= \$24 ;
  always @(posedge clk)
    ending <= \$25 ;
  always @(posedge clk)
    \$signal$1  <= \$26 ;
  always @(posedge clk)
    \wait  <= \$27 ;
  always @(posedge clk)
    sent <= \$28 ;
  always @(posedge clk)
    address <= \$29 ;
  always @(posedge clk)
    instruction <= \$30 ;
  always @(posedge clk)
    \sequence  <= \$31 ;
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$24  = valid;
    if (\$15 ) begin
      \$24  = 1'h0;
    end
    if (\$signal$7 ) begin
      \$24  = \$20 ;
    end
    if (rst) begin
      \$24  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$25  = ending;
    if (\$15 ) begin
      \$25  = 1'h0;
    end
    if (\$signal$11 ) begin
      \$25  = 1'h1;
    end
    if (rst) begin
      \$25  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$26  = \$signal$1 ;
    if (\$signal ) begin
      \$26  = 1'h1;
    end
    if (\$signal$11 ) begin
      \$26  = 1'h0;
    end
    if (rst) begin
      \$26  = 1'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$27  = \wait ;
    if (\$signal ) begin
      if (\$16 ) begin
        \$27  = \$19 [1:0];
      end
    end
    if (rst) begin
      \$27  = 2'h3;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$28  = sent;
    if (\$signal$7 ) begin
      \$28  = \sequence ;
    end
    if (rst) begin
      \$28  = 3'h0;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$29  = address;
    if (\$signal$7 ) begin
      \$29  = \$21 [8:0];
    end
    if (\$signal$11 ) begin
      \$29  = 9'h000;
    end
    if (rst) begin
      \$29  = 9'h000;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$30  = instruction;
    if (\$signal$7 ) begin
      \$30  = \$22 [5:0];
    end
    if (leaves) begin
      \$30  = 6'h00;
    end
    if (rst) begin
      \$30  = 6'h00;
    end
  end
  always @* begin
    if (\$auto$verilog_backend.cc:2505:dump_module$5 ) begin end
    \$31  = \sequence ;
    if (leaves) begin
      \$31  = \$23 [2:0];
    end
    if (\$signal$11 ) begin
      \$31  = 3'h0;
    end
    if (rst) begin
      \$31  = 3'h0;
    end
  end
  assign fetch = \$signal$7 ;
  assign \$signal$4  = \$4 ;
  assign \$20  = computes;
endmodule
